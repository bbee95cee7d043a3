"""What the opposite task has written is left out, whole, and nothing else is."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.event import SourceEvent
from dm.position import Position
from dm.progress.opposite import Opposite
from dm.sourcelog.stream.assembler import TransactionAssembler
from dm.sourcelog.stream.file_births import FileBirth, FileBirths, birth_from_json, birth_to_json
from dm.sourcelog.stream.marks import EarlierSessions, Marks, Session
from dm.sourcelog.stream.transaction import SourceTransaction
from tests.unit.sourcelog.stream.test_assembler import NO_XA, UUID, Stream, assembled, run_of, start

pytestmark = pytest.mark.usefixtures("twin")

TABLES = Opposite("db", "back").tables(folded=False)
MARKS = ("back_syncer_worker", "back_loader_checkpoint", "back~join_syncer_worker", "back~join_loader_checkpoint")
NOT_MARKS = ("back_syncer_checkpoint", "back_syncer_replay", "backup_syncer_worker", "Back_syncer_worker", "worker")
OURS, OTHERS = 7, 8
TARGET, ELSEWHERE = "source-1", "source-2"


class _Demands:
    """One source of the opposite is the target; counts what is demanded."""

    asked = 0

    def of_others(self, source_id: str) -> bool:
        return source_id != TARGET

    def demand(self, source_id: str, position: Position) -> None:
        assert source_id == TARGET
        self.asked += 1

    def ask_again(self) -> None:
        raise AssertionError("nothing says so")


class _Elsewhere(_Demands):
    """The opposite reads another server."""

    def of_others(self, source_id: str) -> bool:
        return False

    def demand(self, source_id: str, position: Position) -> None:
        raise DMError("opposite-elsewhere", task="back", target="there", position=position)


class _Log(Stream):
    """Beside rows: announcements, and statements of sessions."""

    def announce(self, table_id: int, number: int, source: str = TARGET) -> list[SourceEvent]:
        columns = b"\4\x08\x08\x08\x0f\2\x80\0\0"  # the last one is a VARCHAR(32) of utf8mb4
        image = b"\0" + struct.pack("<QQQ", number, 1000, 1) + _text(source)
        return self._row(table_id, "back_syncer_session", columns, image)

    def mark(self, table_id: int, name: str, source: str) -> list[SourceEvent]:
        return self._row(table_id, name, b"\2\x0f\x08\2\x80\0\0", b"\0" + _text(source) + struct.pack("<Q", 1))

    def _row(self, table_id: int, table: str, columns: bytes, image: bytes) -> list[SourceEvent]:
        name, number = table.encode(), struct.pack("<Q", table_id)[:6]
        body = number + b"\1\0" + b"\2db\0" + bytes([len(name)]) + name + b"\0"
        count = columns[:1]
        return [self._event(19, body + columns), self._event(30, number + b"\1\0\2\0" + count + b"\xff" + image)]

    def statement(self, number: int, thread: int, sql: str = "TRUNCATE TABLE t") -> list[SourceEvent]:
        body = struct.pack("<IIBHH", thread, 0, 2, 0, 0) + b"db\0" + sql.encode()
        return [self.gtid(number), self._event(2, body)]

    def transaction(self, number: int, *parts: str | int, source: str = TARGET) -> list[SourceEvent]:
        """A row of each table; an integer announces a session. All progress is of the source."""
        events = [self.gtid(number), self.query("BEGIN")]
        for at, part in enumerate(parts, 20):
            if isinstance(part, int):
                events += self.announce(at, part, source)
            elif part.lower() in MARKS:
                events += self.mark(at, part, source)
            else:
                events += [self.table_map(at, part), self.write_rows(at)]
        return [*events, self.xid()]


def _text(value: str) -> bytes:
    return bytes([len(value)]) + value.encode()


def data(table: TableName) -> bool:
    return not table.table.lower().startswith("back")


def reading(marks: Marks, events: list[SourceEvent], *, whole: bool, births: FileBirths | None = None) -> list[str]:
    """What comes of the events: for each transaction its tables or its statement's writer."""
    assembler = TransactionAssembler(start(f"{UUID}:1"), data, NO_XA, births=births)
    assembler.leave_out(marks)
    found = assembler.feed_run(run_of(events)) if whole else assembled(assembler, events)
    return [said(transaction) for transaction in found if not transaction.moves]


def said(transaction: SourceTransaction) -> str:
    names = [getattr(getattr(item, "table_map", None), "table", transaction.writer) for item in transaction.items]
    return " ".join(names)


ROWS = st.lists(st.sampled_from([*MARKS, *NOT_MARKS, "t", "u"]), min_size=1, max_size=4)


@given(drawn=st.lists(st.tuples(st.sampled_from([TARGET, ELSEWHERE]), ROWS), max_size=8), whole=st.booleans())
def test_a_transaction_is_left_out_when_a_mark_of_the_target_precedes_all_rows_that_are_wanted(
    drawn: list[tuple[str, list[str]]], whole: bool
) -> None:
    stream, check = _Log(), _Demands()
    marks = Marks(TABLES, check)
    events = [stream.format]
    for at, (source, rows) in enumerate(drawn, 2):
        events += stream.transaction(at, *rows, source=source)
    expected, count = [], 0
    for source, rows in drawn:
        wanted = [name for name in rows if data(TableName("db", name))]
        first = next((name for name in rows if name in wanted or name in MARKS), "")
        left_out = first in MARKS and source == TARGET
        count += left_out
        expected.append("" if left_out else " ".join(wanted))
    assert reading(marks, events, whole=whole) == expected
    assert marks.transactions == check.asked == count


STEPS = st.lists(st.sampled_from(["announce", "elsewhere", "ours", "others", "rows", "restart"]), max_size=12)


@given(drawn=STEPS, whole=st.booleans())
def test_a_statement_is_left_out_from_its_sessions_announcement_to_the_servers_next_start(
    drawn: list[str], whole: bool
) -> None:
    stream, number, file = _Log(), 1, 1
    marks = Marks(TABLES, _Demands(), stored=frozenset(), earlier=lambda *_: EarlierSessions())
    births, expected, known, events, runs = FileBirths(), list[str](), False, [stream.format], list[list[SourceEvent]]()
    for step in drawn:
        number += 1
        match step:
            case "announce":
                events += stream.transaction(number, OURS)
                known = True
                expected.append("")
            case "elsewhere":  # the opposite brings a statement from a server that is not the target
                events += stream.transaction(number, OTHERS, source=ELSEWHERE)
                expected.append("")
            case "ours" | "others":
                events += stream.statement(number, OURS if step == "ours" else OTHERS)
                expected.append("opposite" if step == "ours" and known else "others")
            case "rows":
                events += stream.transaction(number, "t")
                expected.append("t")
            case "restart":
                number, file, known = number - 1, file + 1, False
                runs.append(events)
                stream = _Log(f"bin.{file:06}", created=1000 + file)
                events = [stream.format]
    runs.append(events)
    assembler = TransactionAssembler(start(f"{UUID}:1"), data, NO_XA, births=births)
    assembler.leave_out(marks)
    found = list[str]()
    for events in runs:
        run = run_of(events)._replace(file=events[0].file)
        made = assembler.feed_run(run) if whole else assembled(assembler, events)
        found += [said(transaction) for transaction in made if not transaction.moves]
    assert found == expected
    assert marks.statements == expected.count("opposite")


@pytest.mark.parametrize("whole", [True, False])
def test_what_is_known_of_earlier_sessions_is_asked_once_and_unclear_ones_are_said(whole: bool) -> None:
    stream, asked = _Log(), list[tuple[int, int]]()

    def earlier(server_id: int, age: int) -> EarlierSessions:
        asked.append((server_id, age))
        return EarlierSessions(frozenset({OURS}), frozenset({OTHERS}))

    marks = Marks(TABLES, _Demands(), earlier=earlier)
    events = [stream.format, *stream.statement(2, OURS), *stream.statement(3, OTHERS), *stream.statement(4, 9)]
    assert reading(marks, events, whole=whole) == ["opposite", "unclear", "others"]
    assert asked == [(1, 1000)]


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("uuid", [UUID, "4e11fa47-71ca-11e1-9e33-c80aa9429562"])
def test_sessions_are_asked_for_anew_where_a_start_of_the_server_may_have_been_passed_over(
    whole: bool, uuid: str
) -> None:
    """After files that are gone, or on a server that was the source before: a number may have been given again."""
    stream = _Log("bin.000009")
    elsewhere = Position(uuid, "bin.000007", 4, start(f"{UUID}:1").gtid_set)
    other = Session(2, OURS)
    marks = Marks(TABLES, _Demands(), stored=frozenset({Session(1, OURS), other}), earlier=lambda *_: EarlierSessions())
    births = FileBirths(None, marks)
    assembler = TransactionAssembler(elsewhere, data, NO_XA, births=births)
    assembler.leave_out(marks)
    events = [stream.format, *stream.statement(2, OURS)]
    run = run_of(events)._replace(file=stream.file)
    found = list(assembler.feed_run(run) if whole else assembled(assembler, events))
    assert [said(transaction) for transaction in found] == ["others"]
    birth = births.of(found[-1].end)
    assert birth is not None
    assert birth.announced == frozenset({other})


def test_sessions_are_stored_with_the_place_that_they_are_announced_at() -> None:
    stream = _Log()
    marks = Marks(TABLES, _Demands(), stored=frozenset(), earlier=lambda *_: EarlierSessions())
    births = FileBirths(None, marks)
    announcing = stream.transaction(2, OURS)
    before, after = Position(UUID, stream.file, announcing[0].end_offset), announcing[-1].end_offset
    reading(marks, [stream.format, *announcing, *stream.transaction(3, "t")], whole=False, births=births)
    birth = births.of(before)
    assert birth is not None
    assert birth.announced == frozenset()
    birth = births.of(Position(UUID, stream.file, after))
    assert birth == FileBirth(UUID, stream.file, 1000, frozenset({Session(1, OURS)}))
    assert birth_from_json(birth_to_json(birth)) == birth
    again = Marks(TABLES, _Demands(), stored=birth.announced, earlier=lambda *_: pytest.fail("nothing is to be asked"))
    assert reading(again, [stream.format, *stream.statement(4, OURS)], whole=False) == ["opposite"]


def test_progress_alone_is_no_reason_to_store_a_place() -> None:
    stream, marks = _Log(), Marks(TABLES, _Demands())
    here = start(f"{UUID}:1")
    reading(marks, [stream.format, *stream.transaction(2, MARKS[0], "back_syncer_checkpoint")], whole=True)
    # All tables of this log are in the schema of the progress.
    assert not marks.others_after(here)
    reading(marks, [*stream.transaction(3, "t")], whole=False)
    assert marks.others_after(here)


@pytest.mark.parametrize("whole", [True, False])
def test_nothing_is_left_out_of_a_task_that_reads_another_server(whole: bool) -> None:
    stream = _Log()
    marks = Marks(TABLES, _Elsewhere())
    with pytest.raises(DMError, match="does not read target") as raised:
        reading(marks, [stream.format, *stream.transaction(2, MARKS[0], "t")], whole=whole)
    assert raised.value.name == "opposite-elsewhere"
    assert marks.transactions == 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("by_place", [True, False])
def test_whose_it_is_costs_no_question_of_what_was_processed(whole: bool, by_place: bool) -> None:
    """A reading begins with its file's start: each question takes a login at both servers."""

    class Counted(_Demands):
        questions = 0

        def of_others(self, source_id: str) -> bool:
            self.questions += 1
            return super().of_others(source_id)

    stream, check = _Log(), Counted()
    processed = [event for number in (2, 3, 4) for event in stream.transaction(number, MARKS[0], "t", source=ELSEWHERE)]
    begin = replace(start(f"{UUID}:1"), offset=processed[-1].end_offset) if by_place else start(f"{UUID}:1-4")
    assembler = TransactionAssembler(begin, data, NO_XA)
    assembler.leave_out(Marks(TABLES, check))
    events = [stream.format, *processed, *stream.transaction(5, MARKS[0], "u", source=ELSEWHERE)]
    found = assembler.feed_run(run_of(events)) if whole else assembled(assembler, events)
    assert [words for transaction in found if (words := said(transaction))] == ["u"]
    assert (check.questions, check.asked) == (1, 0)


@pytest.mark.parametrize(("folded", "expected"), [(True, ""), (False, "t")])
def test_names_count_as_the_sources_server_compares_them(folded: bool, expected: str) -> None:
    stream = _Log()
    marks = Marks(Opposite("db", "Back").tables(folded=folded), _Demands())
    events = [stream.format, *stream.transaction(2, "BACK_syncer_worker", "t")]
    assert reading(marks, events, whole=True) == [expected]


def test_a_table_that_no_task_has_made_is_said() -> None:
    stream = _Log()
    marks = Marks(TABLES, _Demands(), stored=frozenset(), earlier=lambda *_: EarlierSessions())
    events = [stream.format, *stream.transaction(2, "back_syncer_session")]  # its first column is an INT
    with pytest.raises(DMError, match="no table of progress"):
        reading(marks, events, whole=False)
