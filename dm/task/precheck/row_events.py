"""Whether rows can go to the target as row events, and what GRANT that takes: for BINLOG, and to see triggers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dm.downstream.row_event_session import APPLIER, NOT_AT_TIDB
from dm.errors import grant
from dm.flavor import is_tidb
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult

_TRIGGER: Final = "TRIGGER"


def privilege(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """The privileges that row events take: the task does without, at the price of more work for the target."""
    source, target = context.source.facts, context.target.facts
    if context.config.syncer.row_format == "sql":
        yield answers.success("rows go as SQL: row-format is sql")
    elif is_tidb(target.version_text):
        yield answers.success(f"rows go as SQL: {NOT_AT_TIDB}")
    elif source.flavor != target.flavor or target.version < source.version:
        yield answers.success("rows go as SQL: the target is of another family, or older than the source")
    elif "sql_mode" in context.config.target.session:
        yield answers.success(
            "rows go as SQL: the target's session has a sql_mode, by which it judges values of SQL only"
        )
    elif not (lacking := _lacking(context)):
        yield answers.success()
    else:
        statement = grant(lacking, "*.*", context.target.account)
        yield answers.success(f"rows go as SQL; as row events, which are less work for the target, after: {statement}")


def _lacking(context: Context) -> tuple[str, ...]:
    grants, flavor = context.target.grants, context.target.facts.flavor
    names = (APPLIER[flavor], "SUPER", *(("BINLOG_ADMIN",) if flavor == "mysql" else ()))
    applies = any(grants.globally(name) for name in names)
    # Where all tables are still to come, only a privilege on everything is known to hold for them.
    tables = context.tables
    seen = all(grants.on_table(_TRIGGER, context.destination(table)) for table in tables) and bool(tables)
    sees = grants.globally(_TRIGGER) or seen
    return (*(() if applies else (APPLIER[flavor],)), *(() if sees else (_TRIGGER,)))
