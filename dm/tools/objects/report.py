"""What was found, in the answer's JSON."""

from __future__ import annotations

from dm.tools.objects.accounts.survey import ComparedAccount
from dm.tools.objects.survey import ComparedObject
from dm.unit import JSON


def account_as_json(each: ComparedAccount) -> dict[str, JSON]:
    """An account, role, or the privileges of one; no secret is among it."""
    return {
        "kind": each.kind, "schema": "", "name": each.name, "table": "", "definer": "", "sources": [*each.sources],
        "state": each.state, "status": "", "sourceStatus": "", "why": [*each.why], "findings": [*each.findings],
    }  # fmt: skip


def as_json(each: ComparedObject) -> dict[str, JSON]:
    """One object."""
    definer = each.wanted.definer if each.wanted is not None else None
    if each.there is not None:
        definer = each.there.definer
    return {
        "kind": each.name.kind,
        "schema": each.name.schema,
        "name": each.name.name,
        "table": each.wanted.table if each.wanted is not None and each.name.kind == "trigger" else "",
        "definer": "" if definer is None else str(definer),
        "sources": [*each.sources],
        "state": each.state,
        "status": "" if each.there is None else each.there.status,
        "sourceStatus": "" if each.wanted is None else each.wanted.source.status,
        "why": [*each.why],
        "findings": [*each.findings, *_resting(each)],
    }


def _resting(each: ComparedObject) -> list[JSON]:
    """That an event does not run yet at the target."""
    if each.there is None or each.wanted is None or each.there.status == each.wanted.source.status:
        return []
    return [] if each.wanted.source.status != "ENABLED" else [f"it is {each.there.status} until --enable-events"]
