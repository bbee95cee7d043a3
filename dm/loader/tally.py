"""What the target says of the statements that write a part, and whether it is what it must say.

Problem: a server that has stored a statement's rows may have changed some of them, left some out, or thrown others out
for them, and tells it by numbers only. Whoever does not look loses rows in silence.

Each answer is compared with what was sent: the number of rows, the rows that a key made go or stay (as the task's
`on-duplicate-logical` admits it, and then counted), and each warning. A warning about a value is an error, except for
the error values of ENUM columns: they can only be stored by a lenient session, which complains of each one. As many
complaints as there are error values are admitted and not one more, and those that the server shows (it counts more than
it shows) must be of this kind and of these columns.

A column that the target generates may lose digits of its expression in each row (`price * 0.19` in a DECIMAL), as it
did at the source, and each time a server leaves a note, a TiDB a warning. They say nothing about a value that was sent.
Where a table has generated columns, the session keeps as many warnings as the server counts, and no statement has more
rows than that: so each is seen, and only those are passed over that name such a column and none that is loaded. MySQL
lets an account without SESSION_VARIABLES_ADMIN keep as many as the server's default says (1024); then statements have
as few rows.

Nothing is committed before all statements of a part have been looked at.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from dm.changes.computing import TWO_MOMENTS
from dm.downstream.connection import TargetConnection
from dm.downstream.statements import DataOutcome, StatementResult
from dm.errors import DMError
from dm.ident import TableName
from dm.progress.load_parts import NO_DUPLICATES, Duplicates, LoadRun, tables_loaded_into
from dm.session.answers import reads_answers

OnDuplicate = Literal["replace", "ignore", "error"]

MOST_WARNINGS: Final = 65535  # that a server counts

# What says nothing about a value: a statement that is unsafe in statement format, deprecated syntax, and names of
# character sets.
_HARMLESS: Final = frozenset({1287, 1592, 1681, 3719, 3720, 3778})
_TRUNCATED: Final = 1265
_DUPLICATE_KEY: Final = frozenset({1062, 1586})
_TABLES_SHOWN: Final = 20


@dataclass
class Tally:
    """The answers of one session to the rows of one source table."""

    connection: TargetConnection
    run: LoadRun
    source_table: TableName
    target: TableName
    unique: bool  # the target admits some key once only
    on_duplicate: OnDuplicate
    error_values: int = 0  # of ENUM columns, in all that will be written
    enums: tuple[str, ...] = ()  # these columns
    loaded: tuple[str, ...] = ()  # the columns that get values; needed where there are computed ones
    computed: tuple[str, ...] = ()  # the columns that the target generates
    rows: int = 0
    warnings: int = 0
    duplicates: Duplicates = NO_DUPLICATES
    _kept: int = MOST_WARNINGS  # of the warnings of a statement, those that can be looked at
    _refused: DMError | None = None  # why they are not more

    @reads_answers
    def __post_init__(self) -> None:
        if not self.computed:
            return
        try:
            self.connection.execute(f"SET SESSION max_error_count = {MOST_WARNINGS}")
        except DMError as error:
            if error.name != "privilege-missing":
                raise
            self._refused = error
            self._kept = int(self.connection.query("SELECT @@max_error_count")[0][0])

    @property
    def most_rows(self) -> int | None:
        """How many rows a statement may have whose notes about computed columns are all to be seen; None: any."""
        return (self._kept - 1 - self.error_values) // len(self.computed) if self.computed else None

    def insert(self, statement: bytes, rows: int | None = None) -> None:
        """Execute an INSERT or REPLACE; `rows` where it is known how many it has."""
        try:
            outcome = self.connection.run(statement)
        except DMError as error:
            if error.name == "duplicate-key":
                raise self._duplicate(error.cause) from error
            raise
        # Of one row a server says nothing but how many were affected.
        told = 1 if outcome.told is None else outcome.told
        if rows is not None and told != rows:
            raise DMError("load-rows-differ", table=self.target, affected=told, rows=rows)
        self.rows += told
        self._look_at_warnings(outcome.warnings)
        self._count(outcome, told)

    def sent(self, outcome: DataOutcome, rows: int) -> None:
        """The answer to a LOAD DATA LOCAL of so many rows."""
        if outcome.skipped:
            duplicates = [text for code, text in self._shown() if code in _DUPLICATE_KEY]
            if duplicates:
                raise self._duplicate(duplicates[0])
        self._look_at_warnings(outcome.warnings)
        if outcome.skipped or outcome.records != rows:
            taken = outcome.records - outcome.skipped
            raise DMError("load-rows-differ", table=self.target, affected=taken, rows=rows)
        self.rows += rows
        self.duplicates += Duplicates(replaced=outcome.deleted)

    def _count(self, outcome: StatementResult, rows: int) -> None:
        # REPLACE counts a row that had to go besides the new one; a row that is left as it was does not count.
        more = outcome.affected - rows
        if more > 0 and self.unique and self.on_duplicate == "replace":
            self.duplicates += Duplicates(replaced=more)
        elif more < 0 and self.unique and self.on_duplicate == "ignore":
            self.duplicates += Duplicates(ignored=-more)
        elif more:
            raise DMError("load-rows-differ", table=self.target, affected=outcome.affected, rows=rows)

    def _shown(self) -> list[tuple[int, str]]:
        """Code and text of each warning of the last statement."""
        return [(code, text) for _, code, text in self._levels()]

    @reads_answers
    def _levels(self) -> list[tuple[str, int, str]]:
        """The same with its level first; in a binary session texts come as bytes."""
        found = self.connection.query("SHOW WARNINGS")
        return [(_text(level), int(code), _text(text)) for level, code, text in found]

    def _look_at_warnings(self, warnings: int) -> None:
        """Account for each warning of the last statement."""
        if not warnings:
            return
        shown = self._levels()
        harmful = [
            (code, text)
            for level, code, text in shown
            if code not in _HARMLESS
            and not ((level, code) == self.connection.dialect.lost_digits and self._of_a_computed(text))
        ]
        admitted = [text for code, text in harmful if code == _TRUNCATED and self._names_an_enum(text)]
        self.warnings += max(0, warnings - len(shown)) + len(harmful)
        if warnings >= MOST_WARNINGS or self.warnings > self.error_values or len(admitted) < len(harmful):
            if self._refused is not None and not harmful:
                raise self._refused  # a statement of a dump file is as long as it is
            ambiguous = next((text for _, text in harmful if TWO_MOMENTS in text), None)
            if ambiguous is not None:
                raise DMError("load-moment-ambiguous", table=self.target, cause=ambiguous)
            shown_first = sorted(harmful, key=lambda each: each[1] in admitted)
            raise DMError(
                "load-values-changed",
                table=self.target,
                warnings=self.warnings,
                expected=self.error_values,
                cause="; ".join(text for _, text in shown_first[:3]),
            ).numbered(shown_first[0][0] if shown_first else 0)

    def _names_an_enum(self, text: str) -> bool:
        return any(f"'{name}'" in text for name in self.enums)

    def _of_a_computed(self, text: str) -> bool:
        named = any(f"'{name}'" in text for name in self.computed)
        return named and not any(f"'{name}'" in text for name in self.loaded)

    def _duplicate(self, cause: str) -> DMError:
        """The error about a key that is there already: whose row it is, and whose it may collide with."""
        loaded = tables_loaded_into(self.connection, self.run, self.target)
        others = ", ".join(f"{table} of {source}" for source, table in loaded[:_TABLES_SHOWN])
        return DMError(
            "load-duplicate",
            table=self.target,
            source_table=self.source_table,
            source=self.run.key.source_id,
            others=others + (" and more" if len(loaded) > _TABLES_SHOWN else ""),
            cause=cause,
        )


def _text(value: str | bytes) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value
