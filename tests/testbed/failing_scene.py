"""A task in which one table after the other fails and comes back, while others are written to."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from dm.config.rules import FilterRule
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.errors import CATALOGUE, DMError
from dm.mysql.dialect import Flavor
from dm.progress.joining.branches import drop, release
from dm.progress.operators import read_operators
from dm.syncer.operators import Request
from dm.task.progress import key_of
from tests.testbed.branches import Branching
from tests.testbed.failing_tables import CAUSES, COLUMNS, Cause, Form
from tests.testbed.online_ddl_tools import SHADOW, TRASH
from tests.testbed.sync import RunningSync, subtask_for, wait_until

Drawn = tuple[str, Form]
ROWS = "(1, 1), (2, 2), (3, 3)"


def drawn(flavor: Flavor, chance: random.Random) -> list[Drawn]:
    """All causes that servers of a flavour have, with and without a key, in a drawn order."""
    found = [(what, form) for what, cause in CAUSES.items() if flavor in cause.flavors for form in cause.forms]
    chance.shuffle(found)
    return found


class FailingTables(Branching):
    """One table for each cause, and others that never fail: `lag`, `keyed` and `bag`."""

    def __init__(
        self,
        upstream: ThrowawayServer,
        target: ThrowawayServer,
        schema: str,
        directory: Path,
        causes: Sequence[Drawn],
    ) -> None:
        forbidden = FilterRule(
            name="never", schema_pattern="*", table_pattern="*", sql_pattern=("forbidden",), action="Error"
        )
        subtask = subtask_for(upstream, target, schema, task=schema, on_error="table", aside_tables=3)
        rules = {"shadow_table_rules": SHADOW, "trash_table_rules": TRASH, "filters": (forbidden,)}
        super().__init__(subtask.model_copy(update=rules), directory)
        self.upstream, self.target, self.schema, self.causes = upstream, target, schema, causes
        self._written = 0
        for server in (upstream, target):
            server.execute(
                f"CREATE TABLE {schema}.lag (id INT PRIMARY KEY)",
                f"CREATE TABLE {schema}.parent (id INT PRIMARY KEY)",
                f"CREATE TABLE {schema}.keyed (id INT PRIMARY KEY, v INT)",
                f"CREATE TABLE {schema}.bag (id INT, v INT)",
            )
            for number, (what, form) in enumerate(causes):
                cause = CAUSES[what]
                columns = ", ".join(filter(None, (COLUMNS[form], self.text(number, cause.columns))))
                server.execute(
                    f"CREATE TABLE {schema}.t{number} ({columns}) {cause.options}",
                    f"INSERT INTO {schema}.t{number} (id, v) VALUES {ROWS}",
                )

    def cause(self, number: int) -> Cause:
        return CAUSES[self.causes[number][0]]

    def text(self, number: int, statement: str) -> str:
        """A statement of a cause, about the table with this number."""
        for mark, name in (("{t}", f"{self.schema}.t{number}"), ("{s}", self.schema), ("{n}", f"t{number}")):
            statement = statement.replace(mark, name)
        return statement

    def write(self, number: int, rows: range) -> None:
        """Rows of the table, each in a transaction with rows of the others."""
        for row in rows:
            self._written += 1
            self.upstream.execute(
                "BEGIN",
                f"INSERT INTO {self.schema}.bag VALUES ({number}, {row})",
                f"INSERT INTO {self.schema}.t{number} (id, v) VALUES ({row}, {row})",
                f"INSERT INTO {self.schema}.keyed VALUES ({self._written}, {number})",
                "COMMIT",
            )

    def spoil(self, number: int) -> None:
        """What is done at the target beforehand, with main running."""
        cause, table = self.cause(number), f"{self.schema}.t{number}"
        if cause.before:
            self.upstream.execute(*(self.text(number, each) for each in cause.before))
            wait_until(lambda: self.target.query(f"SELECT 1 FROM {table} WHERE id = 8") == ((1,),), "a first row")
        self.target.execute(*(self.text(number, each) for each in cause.target))

    def strike(self, number: int) -> None:
        """The source goes on, and does what can't be applied."""
        self.write(number, range(10, 14))
        self.upstream.execute(*(self.text(number, each) for each in self.cause(number).source))
        self.write(number, range(14, 18))

    def is_aside(self, number: int, main: RunningSync) -> None:
        """Wait until the table is aside, with the kind of error that its cause says."""

        def rests() -> bool:
            if main.error is not None:
                raise main.error
            return self.rests(f"t{number}")

        wait_until(rests, f"{self.causes[number]} is aside", 120)
        report = self._report(number)
        kinds = {name for name, kind in CATALOGUE.items() if kind.code == report["ErrCode"]}
        assert self.cause(number).error in kinds, (self.causes[number], report)

    def _report(self, number: int) -> Any:
        branch = self.of(f"t{number}")
        assert branch is not None
        return json.loads(branch.error)

    def mend(self, number: int, main: RunningSync) -> None:
        """What a person does, at the target and by verbs."""
        cause, target = self.cause(number), self.target
        target.execute(*(self.text(number, each) for each in cause.mend))
        if cause.way == "drop":
            self.change(drop, f"t{number}")
        elif cause.way:
            main.unit.ask("binlog", self.request(number).to_json())
        self.write(number, range(700, 702))

    def request(self, number: int) -> Request:
        """`dmctl binlog` with the place that `table list` shows."""
        cause = self.cause(number)
        assert cause.way in ("skip", "replace", "inject")
        statements = (self.text(number, cause.instead),) if cause.instead else ()
        place = self._report(number)["Position"]
        return Request(cause.way, self.subtask.task, self.subtask.source_id, place, statements)

    def returns(self, number: int, main: RunningSync) -> None:
        """The table comes back, whatever of its process has died."""
        name = f"t{number}"
        if self.cause(number).way == "drop":
            return
        while (branch := self.of(name)) is not None:
            if branch.phase == "aside":
                self.change(release, name)
            with self.coming(name) as running:
                wait_until(lambda: self._ended(name, main) or running.error is not None, f"{name} is back", 120)
                error = running.error
                if isinstance(error, DMError) and error.retryable:
                    running.error = None  # what is left of a dead process was in the way

    def _ended(self, name: str, main: RunningSync) -> bool:
        if main.error is not None:
            raise main.error
        branch = self.of(name)
        assert branch is None or branch.phase != "aside", f"{name} has failed again: {branch.error}"
        return branch is None

    def compare(self) -> None:
        """Each table has the source's rows; main is synced."""
        columns = {f"t{number}": self.cause(number).compared for number in range(len(self.causes))}
        given_up = {f"t{number}" for number in range(len(self.causes)) if self.cause(number).way == "drop"}
        differ = {}
        for table in ("keyed", "bag", *columns):
            query = f"SELECT {columns.get(table, '*')} FROM {self.schema}.{table} ORDER BY id, v"
            found, wanted = (Counter(server.query(query)) for server in (self.target, self.upstream))
            if table not in given_up and found != wanted:
                cause = self.causes[int(table[1:])] if table in columns else ""
                differ[table, cause] = {"missing": wanted - found, "surplus": found - wanted}
        assert not differ, differ
        with closing(TargetConnection(self.subtask.target)) as connection:
            left = [one for one in self.branches() if one.phase != "dropped"]
            assert not left
            for one in self.branches():
                assert not read_operators(connection, one.progress(key_of(self.subtask)))
