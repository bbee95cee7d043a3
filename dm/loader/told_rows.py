"""Rows that say themselves of which source they are: those of a lost dump are found among the others of a merge.

Problem: the files of a dump are gone with the host that had them, and a part of them is in a table of the target that
other sources fill, too. The rows are of moments that the next dump knows nothing of, and those of the others must stay.

A route may fill columns of the target with parts of the names (`extract-source`, `extract-schema`, `extract-table`).
Where one of these columns says the source, and no other source of the task would say the same, the rows with just the
values of a given-up table are this source's. In a task of one source any such column does: all that the dump had is
given up at once, so tables with the same values go together.

There must not be more such rows than were loaded: then others are among them, as of an earlier task, and a person
decides. They are removed some thousands at a time, each time in a transaction in which the run proves that it is the
newest (`load_parts.taking_back`). Their records go last, so a run after a SIGKILL finds what is left to do.

Values are compared by their bytes: to most collations `One` is `one`, and these may be two sources.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from dm import faults
from dm.changes.column_map import ConstantColumn, constant_columns
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.literals import constant_literal
from dm.ident import Ident, TableName
from dm.loader.target_tables import TargetTables
from dm.progress.load_parts import LoadRun, filled_tables, forget_parts, join_run, other_dump, taking_back
from dm.progress.made_tables import recorded_rows
from dm.rules.table_rules import TableRules
from dm.session.answers import reads_answers

_AT_ONCE: Final = 10_000  # rows of one transaction


@dataclass(frozen=True, slots=True)
class _RowsToRemove:
    """Rows of a table of the target."""

    target: TableName
    condition: str
    sources: frozenset[TableName]  # whose they are


class ToldRows:
    """Those of one subtask."""

    def __init__(self, subtask: SubtaskConfig) -> None:
        self._subtask = subtask
        self._rules = TableRules(subtask)

    def tell(self, connection: TargetConnection, run: LoadRun, tables: Collection[TableName]) -> bool:
        """Whether the rows that were loaded of these tables of the source can be told from all others."""
        return all(
            self._rules.route(source) == target and self._told(source)
            for target, sources in filled_tables(connection, run).items()
            for source in sources
            if source in tables
        )

    def _told(self, source: TableName) -> bool:
        if self._subtask.share is not None:
            return False  # the task's stream may write rows of the same values
        rules, others = self._rules, self._subtask.neighbours
        return rules.names_source(source, others) or (not others and bool(rules.extracted(source)))

    def take_back(self, run: LoadRun, tables: Collection[TableName]) -> None:
        """Remove these rows, which can be told, and their records; raises DMError where others are among them."""
        if not tables:
            return
        # To look for them in a large table takes a while, in which a server says nothing.
        with TargetConnection(self._subtask.target, read_timeout=None) as session:
            join_run(session, run)
            session.execute("SET SESSION foreign_key_checks = 0")  # rows that refer to them see them come again
            for told in self._conditions(session, run, tables):
                self._remove(session, run, told)
            forget_parts(session, run, tables)

    def _conditions(
        self, session: TargetConnection, run: LoadRun, tables: Collection[TableName]
    ) -> list[_RowsToRemove]:
        targets = TargetTables.at(session)
        found: dict[tuple[TableName, str], set[TableName]] = {}
        for target, sources in filled_tables(session, run).items():
            if not targets.exists(target):
                continue  # a person has removed it
            structure = targets.read(target)
            for source in sources:
                if source in tables:
                    columns = constant_columns(source, (), structure, self._rules.extracted(source))
                    condition = " AND ".join(map(_equality, columns))
                    found.setdefault((target, condition), set()).add(source)
        return [_RowsToRemove(target, condition, frozenset(sources)) for (target, condition), sources in found.items()]

    @reads_answers
    def _remove(self, session: TargetConnection, run: LoadRun, told: _RowsToRemove) -> None:
        place = f"{told.target.sql} WHERE {told.condition}"
        there = int(session.query(f"SELECT COUNT(*) FROM {place}")[0][0])
        if there > sum(recorded_rows(session, run, source) for source in told.sources):
            raise other_dump(session, run.key)
        removed = _AT_ONCE
        while removed == _AT_ONCE:
            with taking_back(session, run):
                removed = session.execute(f"DELETE FROM {place} LIMIT {_AT_ONCE}")
            faults.hit("loader.rows_removed")


def _equality(of: ConstantColumn) -> str:
    name, value = Ident(of.column.name).sql, constant_literal(of.value, of.column)
    bytes_of = name if of.column.charset is None else f"CAST(CONVERT({name} USING utf8mb4) AS BINARY)"
    return f"{name} = {value.decode()} AND {bytes_of} = {_hexadecimal(of.value)}"


def _hexadecimal(value: bytes) -> str:
    return f"0x{value.hex()}" if value else "''"
