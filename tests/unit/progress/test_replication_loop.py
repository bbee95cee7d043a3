"""A transaction that a task in the other direction has brought from the target ends the run before it is applied."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import SourceEvent
from dm.progress.replication_loop import BroughtBack
from dm.sourcelog.stream.assembler import TransactionAssembler
from tests.unit.sourcelog.stream.test_assembler import (
    NO_XA,
    UUID,
    Stream,
    assembled,
    everything,
    run_of,
    start,
)

pytestmark = pytest.mark.usefixtures("twin")


def together(stream: Stream, number: int, *tables: str) -> list[SourceEvent]:
    """A transaction with a row of each of these tables."""
    parts = [
        event for at, table in enumerate(tables, 9) for event in (stream.table_map(at, table), stream.write_rows(at))
    ]
    return [stream.gtid(number), stream.query("BEGIN"), *parts, stream.xid()]


def data(table: TableName) -> bool:
    return not table.table.startswith("back")


def watched(
    wanted: Callable[[TableName], bool], *, from_target: bool, at: int = 1
) -> tuple[TransactionAssembler, list[str]]:
    asked: list[str] = []

    def reads_target(checkpoint: TableName) -> bool:
        asked.append(str(checkpoint))
        return from_target

    assembler = TransactionAssembler(start(f"{UUID}:1-{at}"), wanted, NO_XA)
    assembler.brought_back = BroughtBack(reads_target)
    return assembler, asked


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("wanted", [data, everything])
@pytest.mark.parametrize("end", ["syncer_worker", "loader_checkpoint", "~join_syncer_worker", "syncer_replay"])
def test_the_run_ends_before_a_transaction_with_progress_of_the_way_back(
    whole: bool, wanted: Callable[[TableName], bool], end: str
) -> None:
    stream = Stream()
    progress = f"back_{end}".replace("_~", "~")
    assembler, asked = watched(wanted, from_target=True)
    events = [stream.format, *stream.insert(2), *together(stream, 3, progress)]  # progress alone is nothing
    end_of_third = stream.offset
    events += together(stream, 4, progress, "t") + stream.insert(5)
    found: list[int] = []
    completed = assembler.feed_run(run_of(events)) if whole else assembled(assembler, events)
    with pytest.raises(DMError, match="brought from this target") as raised:
        found.extend(transaction.end.offset for transaction in completed)
    assert raised.value.name == "brought-back"
    assert (len(found), found[-1]) == (2, end_of_third)
    assert "task back " in raised.value.message
    assert assembler.position.offset == end_of_third, "the next run comes to the same transaction"
    assert asked == ["db.back_syncer_checkpoint"]


@pytest.mark.parametrize("whole", [True, False])
def test_a_task_that_reads_another_server_is_asked_for_once_and_its_rows_are_taken(whole: bool) -> None:
    stream = Stream()
    assembler, asked = watched(data, from_target=False)
    events = [stream.format]
    for number in (2, 3, 4):
        events += together(stream, number, "back_syncer_worker", "t")
    found = list(assembler.feed_run(run_of(events)) if whole else assembled(assembler, events))
    assert [len(transaction.items) for transaction in found] == [1, 1, 1]
    assert len(asked) == 1


def test_what_was_applied_before_is_passed_over() -> None:
    stream = Stream()
    assembler, asked = watched(data, from_target=True, at=2)
    events = [stream.format, *together(stream, 2, "back_syncer_worker", "t"), *stream.insert(3)]
    assert [transaction.empty for transaction in assembled(assembler, events)] == [True, False]
    assert asked == []
