"""Which session variables of a task the target's sessions do not get, and whether a TiDB tells all of its sessions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import closing

from dm.config.endpoint import TIDB_VARIABLES, WRITTEN_BY_DM
from dm.downstream import session_lock
from dm.downstream.connection import TargetConnection
from dm.flavor import is_tidb
from dm.session.tidb import FIXED
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult


def session_of_target(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A warning for variables of TiDB that have no effect; nothing to say where there are none."""
    endpoint = context.config.target
    asked = [name for name in endpoint.session if name.startswith(TIDB_VARIABLES) and name != WRITTEN_BY_DM]
    if not asked:
        return
    names, why = without_effect(asked, tidb=is_tidb(context.target.facts.version_text))
    if not names:
        yield answers.success()
    for name in names:
        place = endpoint.session_places.get(name, "")
        yield answers.warning(f"{place + ': ' if place else ''}{name} has no effect here: {why}", "leave it out")


def sessions_of_all_servers(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where a TiDB does not tell the sessions of its whole cluster, by which runs know of earlier ones."""
    if is_tidb(context.target.facts.version_text):
        with closing(TargetConnection(context.config.target, foreign_key_checks=False)) as connection:
            session_lock.demand_all_seen(connection)
        yield answers.success()


def without_effect(asked: Collection[str], *, tidb: bool) -> tuple[list[str], str]:
    """Those that are left aside, and why."""
    if tidb:
        return [name for name in asked if name in FIXED], "the sessions of a task have it set to what they rely on"
    return list(asked), "it is a variable of TiDB, and no other server gets it"
