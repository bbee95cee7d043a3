"""Rows that are in the target's tables before a load fills them: they stay, beside the source's or in their place.

A merge into a table that is in use wants just that; mostly they are left over from a trial. Rows that a load of this
task has brought before are none of them, and a task that goes on from its checkpoint loads nothing. A task that begins
anew forgets what it has brought: its own rows are there already, too, and without a key each would come a second time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.ident import TableName
from dm.progress.checkpoint import has_checkpoint, read_checkpoint
from dm.progress.load_parts import tables_filled_by
from dm.task.precheck.context import Answers, Context, some
from dm.task.precheck.result import CheckResult
from dm.task.progress import key_of

_COUNTED: Final = 10_000  # rows of a table that are counted one by one
_BATCH: Final = 50
_ALL: Final = 200


def rows_there_already(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """The rows of each table; their number is exact where it is small."""
    wanted = {context.destination(table) for table in context.tables}
    there = _base_tables(context, wanted) if context.loads and not context.follows_from_checkpoint else {}
    own: frozenset[TableName] = frozenset()
    if there:
        with TargetConnection(context.config.target) as connection:
            own = tables_filled_by(connection, context.config.meta_schema, context.config.task)
            if context.anew:
                own |= _followed(context, connection)
        if not context.anew:
            there = {table: guess for table, guess in there.items() if table not in own}
    counted = _counts(context, sorted(there))
    filled = {table: f"{table} ({_told(count, there[table])})" for table, count in counted.items() if count}
    if not filled:
        yield answers.success()
        return
    doubled = own.intersection(filled, map(context.destination, context.keyless))
    if doubled:
        yield answers.failure(
            f"tables without a key have rows that this task has brought, and would have them twice:"
            f" {some((filled.pop(table) for table in sorted(doubled)), _ALL)}",
            "; ".join(f"TRUNCATE TABLE {table.sql}" for table in sorted(doubled)) + " (at the target)",
        )
    if filled:
        yield answers.warning(
            f"tables that the load fills have rows already: {some(filled.values(), _ALL)}",
            "nothing, if they belong there (what becomes of rows with equal keys `on-duplicate-logical` says; a table"
            " without a key takes all); else TRUNCATE TABLE .. (at the target)",
        )


def _followed(context: Context, connection: TargetConnection) -> frozenset[TableName]:
    """The target's tables of the checkpoint that is to be forgotten; a RENAME may have given them other names."""
    key = key_of(context.config)
    checkpoint = read_checkpoint(connection, key) if has_checkpoint(connection, key) else None
    return frozenset(map(context.destination, {} if checkpoint is None else checkpoint.tables))


def _base_tables(context: Context, wanted: set[TableName]) -> dict[TableName, int]:
    """The wanted tables that the target has, with the server's guess of their rows."""
    rows = context.target.of_schemas(
        "SELECT table_schema, table_name, table_rows FROM information_schema.tables WHERE table_type = 'BASE TABLE'",
        "table_schema",
        tuple({table.schema for table in wanted}),
    )
    found = {TableName(str(schema), str(table)): int(str(guess or 0)) for schema, table, guess in rows}
    return {table: guess for table, guess in found.items() if table in wanted}


def _counts(context: Context, tables: list[TableName]) -> dict[TableName, int]:
    """How many rows the tables have, up to one more than are counted."""
    found: dict[TableName, int] = {}
    for at in range(0, len(tables), _BATCH):
        batch = tables[at : at + _BATCH]
        counts = ", ".join(
            f"(SELECT COUNT(*) FROM (SELECT 1 FROM {table.sql} LIMIT {_COUNTED + 1}) AS few)" for table in batch
        )
        found.update(
            zip(batch, (int(str(count)) for count in context.target.query(f"SELECT {counts}")[0]), strict=True)
        )
    return found


def _told(count: int, guess: int) -> str:
    if count > _COUNTED:
        return f"about {max(guess, count)} rows, estimated"
    return "1 row" if count == 1 else f"{count} rows"
