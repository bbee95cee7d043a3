"""What a validator needs at the target, where the task's file asks for one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

from dm.errors import DMError
from dm.ident import TableName
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.expressions import connected
from dm.task.precheck.result import CheckResult


def temporary_tables(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the account may have temporary tables: the target itself makes what it is compared with."""
    config = context.config
    if config.validator.mode == "none":
        return
    if config.shard_mode:
        error = DMError("validator-with-shards", task=config.task)
        yield answers.warning(f"nothing is validated: {error.message}", error.workaround)
        return
    table = TableName(config.meta_schema, "dm_validator_check")
    with closing(connected(context)) as session:
        session.execute(f"CREATE TEMPORARY TABLE {table.sql} (n INT) ENGINE=InnoDB")
    yield answers.success()
