"""Sessions in which the target evaluates for us: the conditions of expression filters, and the weights of texts.

The problem. A condition means what it means for the source's columns: an ENUM is a number and a text, `'a' = 'A'` is
the collation's to say, a sum of INTs is no sum of texts. No literal has all of this, and no CAST makes an ENUM, a BIT
or a YEAR. A temporary table does: it has the condition's columns with the source's types, character sets and
collations. It belongs to this session, so nobody else sees it, and a session that is lost leaves nothing behind.

The way. For each part of the rows: the table is emptied and filled, the session is put into the source's state, and one
SELECT gives an answer for each row. The condition stands in the list of what is selected, not after WHERE, where the
optimizer may rewrite it. Rows are inserted by our own settings, strictly, so a value that does not fit is an error.

The state. Time zone, sql_mode and present moment are set each time. What the present moment is the event says: the same
rows get the same answers when they are read again. Settings of the server that decide a function's result (language of
names of days, digits of a quotient, mode of weeks) are fixed. Modes that decide how a text is read are off: the task
file is read in one way (`dm.config.server_expression`). No answer is kept.

A temporary table is not logged where the target logs rows. MariaDB logs it under MIXED and STATEMENT, unless the
account may switch that off for its session.

Another session answers the questions of `dm.changes.collation`, and its answers are remembered (`ServerWeights`).
TiDB's weights ignore trailing spaces, and a text of spaces has none, so nothing could be proved about its collations.
There a letter is appended to each text, and its weight is removed again.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import Final

from dm.changes.collation import Profile, Weights, examine
from dm.downstream.connection import TargetConnection
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident, TableName
from dm.mysql.binlog.value import Row
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.dialect.pair import loses_documents
from dm.mysql.schema.show import column_text
from dm.mysql.schema.table import Column
from dm.mysql.sql.literal import Encoder, statements
from dm.rules.comparisons import Question
from dm.rules.row_filter import ServerCondition
from dm.session.answers import reads_answers

_TABLES_KEPT: Final = 32
_ROWS_OF_A_PART: Final = 5000

# Of the source's modes, those that decide a result.
_MODES: Final[tuple[str, ...]] = (
    *("NO_UNSIGNED_SUBTRACTION", "NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ALLOW_INVALID_DATES", "REAL_AS_FLOAT"),
    "PAD_CHAR_TO_FULL_LENGTH",
)

# The session has no schema in which the server could look for a function that is not its own.
_UNKNOWN_FUNCTION: Final = (1046, 1305)
_NO_FUNCTION: Final = "it has a function that this version of the target does not have"

_INSERTING: Final = (
    b"SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', time_zone = '+00:00'"
)


@dataclass(frozen=True, slots=True)
class SourceSession:
    """What of the source decides how a condition is evaluated."""

    flavor: Flavor
    sql_mode: str

    def modes_at(self, target: Flavor) -> str:
        """The sql_mode under which the target gives the source's results."""
        theirs = {mode.strip().upper() for mode in self.sql_mode.split(",")}
        modes = [mode for mode in _MODES if mode in theirs]
        source, there = dialect(self.flavor), dialect(target)
        rounds = source.rounds_fractions is not (source.fraction_mode in theirs)
        if rounds is not there.rounds_fractions:
            modes.append(there.fraction_mode)
        return ",".join(modes)


@dataclass(frozen=True, slots=True)
class _RowTable:
    """A temporary table for the columns of a condition."""

    name: TableName
    number: Ident  # the column that tells the rows apart
    columns: Sequence[tuple[int, Column]]
    encoders: Sequence[Encoder]

    @classmethod
    def of(cls, name: TableName, columns: Sequence[tuple[int, Column]]) -> _RowTable:
        taken = {column.name.lower() for _, column in columns}
        number = "n"
        while number in taken:
            number += "n"
        return cls(name, Ident(number), columns, [column.encoder() for _, column in columns])

    def creation(self) -> str:
        columns = [column_text(_plain(column)) for _, column in self.columns]
        return (
            f"CREATE TEMPORARY TABLE {self.name.sql} ({', '.join([f'{self.number.sql} INT NOT NULL', *columns])})"
            " ENGINE=InnoDB"
        )

    def insertions(self, rows: Sequence[Row], most: int) -> Iterator[tuple[bytes, int]]:
        """INSERT statements of bounded size, each with the number of its rows."""

        def text(number: int, row: Row) -> bytes:
            values = [encode(row[at]) for encode, (at, _) in zip(self.encoders, self.columns, strict=True)]
            return b"(%s)" % b",".join([b"%d" % number, *values])

        head = f"INSERT INTO {self.name.sql} VALUES ".encode()
        return statements(head, starmap(text, enumerate(rows)), b"", most, most=_ROWS_OF_A_PART)


class FilterSession:
    """Evaluates conditions; a broken session is replaced once per question. Threads share it."""

    def __init__(self, connect: Callable[[], TargetConnection], schema: str, source: SourceSession) -> None:
        self._connect = connect
        self._schema = schema
        self._source = source
        self._lock = threading.Lock()
        self._connection: TargetConnection | None = None
        self._tables: dict[tuple[tuple[int, Column], ...], _RowTable] = {}
        self._address = ""  # of the session before
        self._modes = ""
        self.questions = 0
        """How often it has asked."""

    def holds(self, condition: ServerCondition, rows: Sequence[Row], moment: int) -> list[bool]:
        """For each row whether the condition is true, at that moment; raises DMError."""
        with self._lock:
            for left in (1, 0):
                try:
                    return self._asked(condition, rows, moment)
                except DMError as error:
                    self._end()
                    if error.name == "connection-lost" and left:
                        continue
                    if error.name not in REFUSED_STATEMENT.values():
                        raise
                    why = _NO_FUNCTION if error.server_errno in _UNKNOWN_FUNCTION else error.cause
                    raise _failed(condition, why, error.server_errno, self._address) from None
        raise AssertionError("the loop returns or raises")

    def close(self) -> None:
        """End the session."""
        with self._lock:
            self._end()

    def _end(self) -> None:
        if self._connection is not None:
            self._address = self._connection.address
            self._connection.close()
        self._connection = None
        self._tables.clear()

    @reads_answers
    def _asked(self, condition: ServerCondition, rows: Sequence[Row], moment: int) -> list[bool]:
        connection = self._connection
        if connection is None or len(self._tables) >= _TABLES_KEPT:
            self._end()
            connection = self._connection = self._opened()
        self._demand_types(condition, connection)
        table = self._tables.get(condition.columns)
        if table is None:
            name = TableName(self._schema, f"dm_filter_rows_{len(self._tables)}")
            table = _RowTable.of(name, condition.columns)
            connection.execute(table.creation())
            self._tables[condition.columns] = table
        evaluating = connection.rendered(
            "SET SESSION sql_mode = %s, time_zone = %s, timestamp = %s",
            (self._modes, condition.zone or "+00:00", max(moment, 1)),
        )
        # The text ends where its parentheses do.
        question = f"SELECT {table.number.sql}, ({condition.text}) IS TRUE FROM {table.name.sql}"
        answers = [False] * len(rows)
        for insertion, count in table.insertions(rows, connection.statement_bytes):
            self.questions += 1
            connection.run_all([_INSERTING, f"DELETE FROM {table.name.sql}".encode(), insertion, evaluating], [])
            found = connection.query(question)
            if len(found) != count:
                what = f"the target has answered for {len(found)} of {count} rows of an expression filter"
                raise DMError("internal-error", what=what)
            for number, answer in found:
                answers[int(number)] = bool(answer)
        return answers

    def _opened(self) -> TargetConnection:
        connection = self._connect()
        try:
            if connection.dialect.has_binlog:
                connection.execute("SET SESSION sql_log_bin = 0")
        except DMError as error:
            if error.name != "privilege-missing":
                connection.close()
                raise
        self._modes = self._source.modes_at(connection.flavor)
        return connection

    def _demand_types(self, condition: ServerCondition, connection: TargetConnection) -> None:
        if loses_documents(self._source.flavor, connection.flavor):
            for _, column in condition.columns:
                if column.type.is_document:
                    why = f"column `{column.name}` is of type JSON, which MariaDB keeps as a text: results would differ"
                    raise _failed(condition, why, 0, connection.address)


def _plain(column: Column) -> Column:
    """A column that takes any value of the other, and nothing by itself."""
    return replace(
        column, nullable=True, default=None, on_update=None, auto_increment=False, generated=None, expression=None,
        invisible=False,
    )  # fmt: skip


def _failed(condition: ServerCondition, why: str, number: int, address: str) -> DMError:
    return DMError(
        "expression-failed", rule=condition.rule, expression=condition.text, why=why, address=address
    ).numbered(number)


_REMEMBERED: Final = 100_000
_UNKNOWN_COLLATION: Final = {1273, 1253, 1115}  # the collation, or its character set
_END: Final = b"x"
_NAME: Final = re.compile(r"[a-z0-9_]+", re.IGNORECASE)


class ServerWeights(Weights):
    """WEIGHT_STRING and CONVERT on the target; a broken session is replaced once per question."""

    def __init__(self, connect: Callable[[], TargetConnection], *, remembered: int = _REMEMBERED) -> None:
        self._connect = connect
        self._connection: TargetConnection | None = None
        self._without_end: bool | None = None  # until a session was asked
        self._answers: OrderedDict[tuple[str, bytes], bytes | None] = OrderedDict()
        self._profiles: dict[str, Profile | None] = {}
        self._remembered = remembered
        self._lock = threading.RLock()
        self.questions = 0

    def weigh(self, text: bytes, charset: str, collation: str, prefix: int | None) -> bytes | None:
        """The weight of the text, converted to the collation's character set and cut to `prefix` characters."""
        into = _charset_of(collation)
        cut = _cut(charset, into, prefix)
        if not self._weighs_without_end():
            return self._ask(f"SELECT WEIGHT_STRING({cut} COLLATE {collation})", text)
        letter = _cut("ascii", into, None)
        end = self._ask(f"SELECT WEIGHT_STRING({letter} COLLATE {collation})", _END)
        letter = letter.replace("?", f"0x{_END.hex()}")
        both = self._ask(f"SELECT WEIGHT_STRING(CONCAT({cut}, {letter}) COLLATE {collation})", text)
        return None if both is None or not end or not both.endswith(end) else both[: -len(end)]

    def convert(self, text: bytes, charset: str, into: str, prefix: int | None) -> bytes | None:
        """The text converted to another character set and cut to `prefix` characters."""
        return self._ask(f"SELECT CAST({_cut(charset, into, prefix)} AS BINARY)", text)

    def profile(self, collation: str) -> Profile | None:
        """What an examination proved about the collation; made once."""
        with self._lock:
            if collation not in self._profiles:
                self._profiles[collation] = examine(self, collation)
            return self._profiles[collation]

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        """Whether `text question other` is true under the collation; None where the server does not know it."""
        into = _charset_of(collation)
        literal = "0x" + other.hex() if other else "''"
        right = _cut(other_charset, into, None).replace("?", literal)
        left = f"{_cut(charset, into, None)} COLLATE {collation}"
        try:
            answer = self._ask(f"SELECT CAST(({left} {question} {right} COLLATE {collation}) AS BINARY)", text)
        except DMError as error:
            if error.server_errno in _UNKNOWN_COLLATION:
                return None
            raise
        return answer == b"1"

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _weighs_without_end(self) -> bool:
        with self._lock:
            if self._without_end is None:
                self._connection = self._connection or self._connect()
                self._without_end = self._connection.dialect.weighs_without_end
            return self._without_end

    def _ask(self, question: str, text: bytes) -> bytes | None:
        with self._lock:
            found = self._answers.get((question, text), _NOTHING)
            if found is not _NOTHING:
                self._answers.move_to_end((question, text))
                return found
            answer = self._answer(question.replace("?", "0x" + text.hex() if text else "''").encode())
            if len(text) <= 1024:
                self._answers[question, text] = answer
                if len(self._answers) > self._remembered:
                    self._answers.popitem(last=False)
            return answer

    @reads_answers
    def _answer(self, sql: bytes) -> bytes | None:
        self.questions += 1
        for left in (1, 0):
            if self._connection is None:
                self._connection = self._connect()
            try:
                value = self._connection.query(sql)[0][0]
            except DMError as error:
                self._connection.close()
                self._connection = None
                if error.name != "connection-lost" or not left:
                    raise
            else:
                return None if value is None else bytes(value)
        raise AssertionError("the loop returns or raises")


_NOTHING: Final = b"\0nothing\0"


def _charset_of(collation: str) -> str:
    return collation.partition("_")[0]


def _cut(charset: str, into: str, prefix: int | None) -> str:
    """An expression over the text `?`; character sets are names of the server, checked all the same."""
    if not _NAME.fullmatch(charset) or not _NAME.fullmatch(into):
        raise DMError("internal-error", what=f"character set {Ident(charset).sql} or {Ident(into).sql}")
    converted = f"CONVERT(_{charset} ? USING {into})"
    return converted if prefix is None else f"LEFT({converted}, {int(prefix)})"
