"""What comes next is read while the target executes a statement; whoever needs it finds it read, and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from itertools import count

import pytest

from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import scan
from dm.sourcelog.stream.transaction import MemoryItems, SourceTransaction, StatementItem
from dm.syncer.dispatcher import ReadingAhead, StatementReading
from tests.unit.syncer.ddl.planning import PLACE

CONTEXT = SourceContext("mysql", 90704, "d")
NUMBERS = count()


def _transaction(*texts: str | bytes) -> SourceTransaction:
    statements = [text if isinstance(text, bytes) else text.encode() for text in texts]
    items = [StatementItem(Query("d", text, QuerySession(), 0, 0, 0, 0)) for text in statements]
    return SourceTransaction(PLACE, PLACE, None, 0, MemoryItems(items))


def _route(table: TableName) -> TableName:
    return TableName("target", table.table)


def _reading(
    following: SourceTransaction | None, context_of: Callable[[Query], SourceContext] = lambda _: CONTEXT
) -> ReadingAhead:
    reading = StatementReading(context_of, lambda table: table.schema == "d", _route)
    return ReadingAhead(lambda: following, reading)


@pytest.fixture
def text() -> str:
    """A statement that nobody has read so far."""
    return f"ALTER TABLE d.t ADD COLUMN v_{next(NUMBERS)} INT"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Sequence[str]:
    """The texts that were read, each as often as it was."""
    found: list[str] = []

    def noted(text: str, context: SourceContext) -> object:
        found.append(text)
        return scan(text, context)

    monkeypatch.setattr("dm.mysql.sql.token.scan", noted)
    return found


def test_a_statement_and_what_it_is_for_the_target_are_read_once(text: str, read: Sequence[str]) -> None:
    with closing(_reading(_transaction(text))) as ahead:
        ahead.begin()
    assert read == [text, text.replace("d.t", "`target`.`t`")]
    Piece.of(text, CONTEXT).route(_route)
    assert len(read) == 2


@pytest.mark.parametrize("foreign", ["ALTER TABLE other.t ADD COLUMN v INT", "INSERT INTO d.t VALUES (1)", "BEGIN"])
def test_what_nobody_follows_has_no_text_for_the_target(foreign: str, text: str, read: Sequence[str]) -> None:
    with closing(_reading(_transaction(foreign, text))) as ahead:
        ahead.begin()
    assert [each for each in read if "target" in each] == [text.replace("d.t", "`target`.`t`")]


@pytest.mark.parametrize("bad", ["ALTER TABLE d.t ADD COLUMN v INT 'x", b"ALTER TABLE d.t \xff", "no statement"])
def test_what_cannot_be_read_is_left_to_its_turn(bad: str | bytes) -> None:
    with closing(_reading(None)) as ahead:
        ahead.read(_transaction(bad))


def test_an_error_that_nobody_foresaw_is_logged_and_stops_nothing(text: str, caplog: pytest.LogCaptureFixture) -> None:
    def breaks(query: Query) -> SourceContext:
        raise LookupError("not where it should be")

    with closing(_reading(_transaction(text), breaks)) as ahead:
        ahead.begin()
    assert "not where it should be" in caplog.text
    with pytest.raises(LookupError):
        ahead.read(_transaction(text))


def test_where_nothing_follows_nothing_is_read(read: Sequence[str]) -> None:
    for following in (None, _transaction()):
        with closing(_reading(following)) as ahead:
            ahead.begin()
    assert read == []
