"""XA transactions between PREPARE and COMMIT: their rows wait here, on disk, for the verdict.

The problem. The source writes the rows of an XA transaction at its PREPARE. A later `XA COMMIT` or `XA ROLLBACK` with
the same xid decides whether they count. It may come minutes or days later, from any session, even after a restart of
the source. Meanwhile all of the binlog in between is applied, so the checkpoint L moves past the PREPARE, and neither
the relay nor the source has to keep it. From then on this folder has the only copy of the rows.

What counts where. A PREPARE counts as a transaction without changes: the position moves past it. The XA COMMIT is the
transaction with the rows. Its position and GTID are theirs (safe mode, the exact position of the ordered lane, a
table's own point), and a reader of the source first saw them at its place in the order. A table has the same structure
at both: the source holds the metadata locks of a prepared transaction, even after its session or its server ended. The
rules at the COMMIT apply. Tables that were left out at the PREPARE are remembered, so that later rules which include
them don't lose their rows quietly.

Invariants, with L the checkpoint as the target has it.

X1  Undecided rows are written to disk before L passes their PREPARE. `make_durable` is called with each L before L is
    written, and syncs the rows whose verdict is after that L. A transaction decided before the next checkpoint never
    waits for a disk.
X2  Before an L is written at which something is undecided, `make_durable` writes a list: this L ("reach"), what is held
    at or before it, and the verdicts known so far. An entry is deleted only when an L after its verdict is written. So
    a run that starts at any L finds each entry that was undecided there, wherever the earlier run was stopped between
    two steps. An L at which nothing is undecided needs no list, and no entry of an older one.
X3  A run starts with the listed entries whose PREPARE is at or before L and whose verdict is not. A PREPARE beyond L is
    read again with its rows; an unlisted one is beyond L.
X4  A list counts only if its reach covers L. Otherwise the list is older than L and is ignored. Then either nothing was
    undecided at L, or another folder was used meanwhile (another host continued the task) and verdicts were read that
    this one does not know.
X5  The list is at the target, too, in the transaction that stores L (`dm.progress.prepared_places`). A run that finds
    no list here that counts takes that one, with the rows of its entries that are here: a task that was elsewhere may
    come back. It reads the others again (`prepared_again.py`). So the loss of a host loses no rows that the source's
    binlog still has.
X6  Each run has its own directory, named by its epoch, and completes it before it gets that name. A stopped process
    that continues beside its successor changes only files that no run reads any more.

An XA COMMIT without an entry pauses the task (`xa-prepare-missing`). The PREPARE was before the start of the task, was
in a lost folder and is purged at the source, or was not logged. An XA ROLLBACK without an entry is harmless. A second
PREPARE of an xid that is undecided here decides the first. The source refuses a known xid, so it has lost the first (a
crash before the engine was told) or decided it unlogged. Without a second PREPARE, `prepared_watch` asks the source.

Readers of a log differ in what an undecided transaction is to them (`UndecidedXa`):

hold    `PreparedTransactions`, all of the above: for readers that lose rows if they lose one of these.
ignore  The same, but an XA COMMIT without an entry has no rows: for a reader that may begin anywhere, and need not see
        each row.
refuse  `UnheldXa` with an error: for a reader that leaves all that comes from there to another.
pass    `UnheldXa` without one: for a reader that looks at places, not at rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Protocol

from dm import faults
from dm.errors import DMError
from dm.gtid import Gtid
from dm.ident import TableName
from dm.position import Position
from dm.sourcelog.stream.prepared_list import HeldXa, PreparedDirectory, TransactionEnd
from dm.sourcelog.stream.spool_file import RECORDS, ItemWriter, SpoolReader, SpoolWriter, read_items, read_maps
from dm.sourcelog.stream.transaction import Item, RowsItem, TransactionItems

Wanted = Callable[[TableName], bool]


class PreparedRows:
    """The rows of a prepared transaction in its file; rows of tables no longer wanted stay there."""

    def __init__(self, path: Path, held: HeldXa, wanted: Wanted) -> None:
        self._path = path
        self._held = held
        self._wanted = wanted

    def __len__(self) -> int:
        return self._held.items

    def __iter__(self) -> Iterator[Item]:
        if not self._held.items:
            return
        try:
            reader = SpoolReader(self._path)
        except DMError as error:
            raise self._damaged(error.message) from error
        try:
            if self._held.maps is None:
                # Of an earlier run. This reads all of it, so it is verified before any of its rows is applied.
                self._held.maps = read_maps(self._records(reader))
            for item in read_items(self._records(reader), self._held.maps):
                if not isinstance(item, RowsItem) or self._wanted(
                    TableName(item.table_map.schema, item.table_map.table)
                ):
                    yield item
        finally:
            reader.close()

    def _records(self, reader: SpoolReader) -> Iterator[bytes]:
        try:
            footer = reader.footer()
            if footer is None or footer.records != self._held.records:
                raise self._damaged("its end is not as it was written")
            for record in reader.records(0, reader.size()):
                if record[0] not in RECORDS:
                    raise self._damaged("another version of dm has written it")
                yield record
        except DMError as error:
            if error.name != "spool-damaged":
                raise
            raise self._damaged(error.message) from error

    def _damaged(self, what: str) -> DMError:
        return DMError("xa-rows-damaged", xid=self._held.xid, file=self._path, what=what)


class PreparedItems:
    """The items of an XA COMMIT: the rows of its PREPARE, and the memory of the transaction itself.

    The file stays until the checkpoint has passed the XA COMMIT, so readers are not counted.
    """

    def __init__(self, rows: PreparedRows, own: TransactionItems) -> None:
        self._rows = rows
        self._own = own
        self.size = own.size

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Item]:
        return iter(self._rows)

    def hold(self) -> None:
        """One more reader needs them."""
        self._own.hold()

    def release(self) -> None:
        """A reader is through."""
        self._own.release()


class UndecidedXa(Protocol):
    """What a reader does with XA transactions between PREPARE and verdict."""

    def hold(
        self,
        xid: str,
        items: TransactionItems,
        *,
        end: Position,
        gtid: Gtid | None,
        timestamp: int,
        left_out: frozenset[TableName] = frozenset(),
    ) -> None:
        """A PREPARE that ends at `end`, with its rows and the tables whose rows were left out; raises DMError."""
        ...

    def commit(self, xid: str, *, end: Position, gtid: Gtid | None, wanted: Wanted) -> PreparedRows | None:
        """The rows that the XA COMMIT at `end` makes valid; None: none for this reader. Raises DMError."""
        ...

    def rollback(self, xid: str, *, end: Position, gtid: Gtid | None) -> None:
        """The XA ROLLBACK at `end` makes the rows void, if there are any."""
        ...


class UnheldXa:
    """Holds no rows: raises the error that `refused` makes of what it meets, or passes by."""

    def __init__(self, refused: Callable[[str], Exception] | None = None) -> None:
        self._refused = refused

    def hold(self, xid: str, items: TransactionItems, **_: object) -> None:
        """A PREPARE."""
        self._met(f"the XA transaction {xid} is prepared")

    def commit(self, xid: str, **_: object) -> None:
        """An XA COMMIT."""
        self._met(f"the XA transaction {xid} is committed")

    def rollback(self, xid: str, **_: object) -> None:
        """An XA ROLLBACK."""
        self._met(f"the XA transaction {xid} is rolled back")

    def _met(self, what: str) -> None:
        if self._refused is not None:
            raise self._refused(what)


class PreparedTransactions:
    """Prepared, undecided transactions: the reader's thread holds and decides them, the progress writer syncs them."""

    def __init__(self, directory: Path, *, ignores_earlier: bool = False) -> None:
        self._ignores_earlier = ignores_earlier  # of what was prepared before its first start no row is wanted
        self._directory = PreparedDirectory(directory)
        self._lock = threading.Lock()
        self._held: dict[int, HeldXa] = {}
        self._undecided: dict[str, HeldXa] = {}
        self._next = 1
        self.listed = False  # the target has a list

    def open(self, epoch: int, stored: Position | None, at_target: str = "") -> None:
        """Begin a run at the checkpoint `stored`, None for a task without one (X3, X4, X5).

        `at_target`: the list that was stored with it, if there is one.
        """
        kept = self._directory.begin(epoch, stored, at_target)
        self.listed = bool(at_target)
        self._held = {held.number: held for held in kept}
        self._undecided = {held.xid: held for held in kept}
        self._next = max(self._held, default=0) + 1

    @property
    def undecided(self) -> list[HeldXa]:
        """Transactions that wait for a verdict, the oldest first."""
        with self._lock:
            return list(self._undecided.values())

    def undecided_at(self, position: Position) -> tuple[str, ...]:
        """The transactions that are prepared at a position, the present checkpoint, and decided after it."""
        with self._lock:
            return tuple(
                sorted(
                    held.xid
                    for held in self._held.values()
                    if (held.passed or held.prepared.lies_in(position))
                    and not (held.verdict is not None and held.verdict.lies_in(position))
                )
            )

    def without_rows(self) -> list[HeldXa]:
        """Before the run: what is undecided at its checkpoint, and has rows that are not here."""
        return [held for held in self._held.values() if held.items and not self._directory.path(held).exists()]

    def read_again(self, held: HeldXa, items: TransactionItems, left_out: frozenset[TableName]) -> None:
        """The rows of one of these, by today's rules; raises DMError when they can't be written."""
        held.again, held.left_out, held.items = True, left_out, 0
        self._directory.again(held).unlink(missing_ok=True)
        self._write(items, held, self._directory.again(held))
        self._directory.sync(held)
        faults.hit("prepared.read_again")

    def restored(self, stored: Position) -> None:
        """No more is read again: the list counts on what was."""
        again = [held for held in self._held.values() if held.again]
        for held in self.without_rows():
            held.lost = not held.again
        if again:
            self._directory.write(stored, self._held.values())  # before the names: what lacks a file is read again
            faults.hit("prepared.restored")
        for held in again:
            self._directory.put(held)
            held.again, held.durable = False, False

    def begin_without(self, xids: Iterable[str], position: Position, now: int) -> None:
        """Before the run: these are undecided where it begins, and have no rows for it (a second pass)."""
        place = TransactionEnd.of(position, None)
        with self._lock:
            for xid in xids:
                if xid not in self._undecided:
                    held = HeldXa(self._next, xid, place, now, durable=True, passed=True)
                    self._held[self._next] = self._undecided[xid] = held
                    self._next += 1

    def hold(
        self,
        xid: str,
        items: TransactionItems,
        *,
        end: Position,
        gtid: Gtid | None,
        timestamp: int,
        left_out: frozenset[TableName] = frozenset(),
    ) -> None:
        """Store the rows of a PREPARE that ends at `end`; raises DMError when they can't be written."""
        place = TransactionEnd.of(end, gtid)
        held = HeldXa(self._next, xid, place, timestamp, left_out=left_out)
        self._next += 1
        if len(items):
            self._write(items, held, self._directory.path(held))
        else:
            held.durable = True  # the list has all that is known of it
        faults.hit("xa.held")
        with self._lock:
            before = self._undecided.pop(xid, None)
            if before is not None:
                before.verdict = place
            self._held[held.number] = self._undecided[xid] = held

    @staticmethod
    def _write(items: TransactionItems, held: HeldXa, path: Path) -> None:
        writer = SpoolWriter(path)
        try:
            records = ItemWriter(writer)
            for item in items:
                records.append(item)
                held.items += 1
            held.maps = records.maps
            held.records = held.items + len(records.maps)
            held.bytes = writer.end
            writer.finish(held.timestamp)
        finally:
            writer.close()

    def commit(self, xid: str, *, end: Position, gtid: Gtid | None, wanted: Wanted) -> PreparedRows | None:
        """The rows that the XA COMMIT at `end` makes valid; raises DMError when they are unknown, and wanted."""
        held = self._decide(xid, end, gtid)
        if held is None or held.lost:
            if self._ignores_earlier:
                return None
            raise DMError("xa-prepare-missing", xid=xid, position=end)
        for table in sorted(held.left_out):
            if wanted(table):
                raise DMError("xa-rows-left-out", xid=xid, table=str(table), position=end)
        return PreparedRows(self._directory.path(held), held, wanted)

    def rollback(self, xid: str, *, end: Position, gtid: Gtid | None) -> None:
        """The XA ROLLBACK at `end` makes the rows void, if there are any."""
        self._decide(xid, end, gtid)

    def let_go(self, held: HeldXa) -> bool:
        """Nothing will decide it (`prepared_watch`): treat it as void from its PREPARE on. False if it is decided.

        A later start may still find it in the list, and then gets the same answer from the source.
        """
        with self._lock:
            if self._undecided.get(held.xid) is not held:
                return False
            del self._undecided[held.xid]
            if not held.passed:
                held.verdict = held.prepared
                return True
            del self._held[held.number]
        self._directory.remove(held)
        return True

    def _decide(self, xid: str, end: Position, gtid: Gtid | None) -> HeldXa | None:
        with self._lock:
            held = self._undecided.pop(xid, None)
            if held is not None:
                held.verdict = TransactionEnd.of(end, gtid)
            return held

    def make_durable(self, position: Position) -> str:
        """Called before `position` is stored as the checkpoint: makes durable whatever a start there needs.

        Returns the list that is to be stored with it; empty if nothing is undecided there.
        """
        with self._lock:
            passed = [held for held in self._held.values() if held.passed or held.prepared.lies_in(position)]
            undecided = [held for held in passed if held.verdict is None or not held.verdict.lies_in(position)]
        if not undecided:
            return ""
        for held in undecided:
            if not held.durable and not held.lost:
                self._directory.sync(held)
                held.durable = True
        faults.hit("xa.before_list")
        text = self._directory.write(position, passed)
        faults.hit("xa.after_list")
        return text

    def delete_decided(self, position: Position) -> None:
        """Called when `position` is stored: deletes what was decided up to there."""
        with self._lock:
            over = [held for held in self._held.values() if held.verdict is not None and held.verdict.lies_in(position)]
            for held in over:
                del self._held[held.number]
            for held in self._held.values():
                held.passed = held.passed or held.prepared.lies_in(position)
        for held in over:
            self._directory.remove(held)
            faults.hit("xa.removed")
