"""An online DDL that is under way: what it did so far is not in the binlog that the task will read."""

from __future__ import annotations

from collections.abc import Iterator

from dm.task.precheck.context import Answers, Context, some
from dm.task.precheck.result import CheckResult


def online_ddl(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Ghost tables of migrated tables, where the task does not know their statements yet."""
    rules = context.rules
    ghosts = [table for table in context.all_tables if rules.online.kind(table) == "ghost" and rules.followed(table)]
    if not ghosts or context.follows_from_checkpoint:
        yield answers.success("no online DDL is under way" if not ghosts else "")
        return
    message = f"an online DDL is under way, or has left its table behind: {some(ghosts)}"
    way_out = "wait until it is done; DROP TABLE what was left behind; or leave `online_ddl` out of the check"
    yield answers.failure(message, way_out) if context.dumps else answers.warning(message, way_out)
