"""The folder of prepared XA transactions: one directory per run, with a file per PREPARE and a list of them.

    <folder>/<epoch>/<number>.xa     the rows (`spool_file`), with a footer
    <folder>/<epoch>/list            one record of JSON: format, reach, entries; replaced as a whole, durable

See `prepared.py` for the purpose of the list. A directory is built under another name and then renamed, so a directory
with a number for a name is complete. Its files are links to the earlier run's files, which are then removed.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from zlib import crc32

from dm import faults
from dm.atomic_file import sync_directory, write_atomically
from dm.errors import DMError
from dm.gtid import Gtid, GtidSet
from dm.ident import TableName
from dm.mysql.binlog.table_map import TableMap
from dm.position import Position
from dm.sourcelog.stream.spool_file import HEADER, MAGIC, SpoolReader
from dm.stored_format import PREPARED
from dm.text import is_decimal
from dm.unit import JSON

_LIST: Final = "list"
_ROWS: Final = ".xa"
_AGAIN: Final = ".again"
_NEW: Final = ".new"
_GONE: Final = ".gone"


@dataclass(frozen=True, slots=True)
class TransactionEnd:
    """The end of one transaction of the source, with its GTID."""

    end: Position  # without its GTID set, which would be large
    gtid: Gtid | None

    @classmethod
    def of(cls, end: Position, gtid: Gtid | None) -> TransactionEnd:
        """The place of the transaction `gtid` that ends at `end`."""
        return cls(Position(end.server_uuid, end.file, end.offset), gtid)

    def lies_in(self, position: Position) -> bool:
        """Whether the transaction is at or before a position; raises DMError when that can't be known."""
        return position.has_processed(self.gtid, self.end)

    def to_json(self) -> JSON:
        """As stored in the list."""
        end = self.end
        gtid: JSON = None if self.gtid is None else [str(self.gtid), self.gtid.ordered]
        return [end.server_uuid, end.file, end.offset, gtid]

    @classmethod
    def from_json(cls, found: list[Any]) -> TransactionEnd:
        """The inverse of `to_json`."""
        uuid, file, offset, gtid = found
        end = Position(uuid, file, offset)
        return cls(end, None if gtid is None else Gtid.parse(gtid[0])._replace(ordered=gtid[1]))


@dataclass(slots=True)
class HeldXa:
    """One PREPARE whose rows are held."""

    number: int
    xid: str
    prepared: TransactionEnd
    timestamp: int  # of the PREPARE, the source's clock
    items: int = 0
    records: int = 0
    bytes: int = 0
    left_out: frozenset[TableName] = frozenset()  # changed tables whose rows the rules left out
    verdict: TransactionEnd | None = None
    durable: bool = False
    again: bool = False  # its rows were missing here, and are read again
    lost: bool = False  # its rows are missing here, and could not be read again
    passed: bool = False  # the stored checkpoint is past the PREPARE, and so is every later one, on any server
    maps: list[TableMap] | None = field(default=None, repr=False)  # None: read them from the file


class PreparedDirectory:
    """The folder on disk, as one run uses it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._own = folder / "0"

    def path(self, held: HeldXa) -> Path:
        """The file of an entry."""
        return self._own / f"{held.number}{_ROWS}"

    def begin(self, epoch: int, stored: Position | None, at_target: str) -> list[HeldXa]:
        """Build the run's directory from the earlier run's; returns the entries that are undecided at `stored`.

        If no list here counts, that `at_target` does, with the files of its entries that are here. Directories of
        later epochs are left alone: this run may have been stopped and have a successor.
        """
        try:
            while True:
                with suppress(_Overtaken):
                    return self._take_over(epoch, stored, at_target)
        except OSError as error:
            raise DMError("spool-not-written", file=self._folder) from error

    def _take_over(self, epoch: int, stored: Position | None, at_target: str) -> list[HeldXa]:
        _create(self._folder)
        older = sorted(number for number in self._numbers("") if number < epoch)
        source = self._folder / str(older[-1]) if older else None
        listed = None if source is None or stored is None else _list_of(source)
        here = None if listed is None or stored is None else undecided_in(listed, stored, source)
        kept = here or []
        if here is None and stored is not None and at_target:
            kept = undecided_in(json.loads(at_target), stored, "the target") or []
        self._own = self._folder / str(epoch)
        building = self._folder / f"{epoch}{_NEW}"
        for number in self._numbers(_NEW):
            if number <= epoch:
                shutil.rmtree(self._folder / f"{number}{_NEW}")
        building.mkdir()
        if stored is not None and kept:
            if source is not None and listed is not None:
                _link(source, building, _numbers_there(listed, kept))
            _write_list(building, stored, kept)
        faults.hit("xa.before_takeover")
        _remove(self._own)  # of an earlier life of the task, whose progress was removed
        building.rename(self._own)
        sync_directory(self._folder)
        faults.hit("xa.after_takeover")
        for number in older:
            _remove(self._folder / str(number))
        for number in self._numbers(_GONE):
            shutil.rmtree(self._folder / f"{number}{_GONE}", ignore_errors=True)  # a run was stopped during a removal
        return kept

    def _numbers(self, suffix: str) -> list[int]:
        names = (path.name for path in self._folder.iterdir() if path.name.endswith(suffix))
        return [int(number) for name in names if is_decimal(number := name.removesuffix(suffix))]

    def sync(self, held: HeldXa) -> None:
        """Force an entry's rows to the disk; its name follows with the list."""
        path = self.again(held) if held.again else self.path(held)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
        except OSError as error:
            raise DMError("spool-not-written", file=path) from error

    def write(self, reach: Position, entries: Iterable[HeldXa]) -> str:
        """Replace the list, durably; returns what it says, for the target."""
        return _write_list(self._own, reach, entries)

    def again(self, held: HeldXa) -> Path:
        """Where the rows of an entry are until the list counts on them, if they are read again."""
        return self._own / f"{held.number}{_AGAIN}"

    def put(self, held: HeldXa) -> None:
        """Have the rows that were read again for the entry's; its name follows with the next list."""
        self.again(held).replace(self.path(held))

    def remove(self, held: HeldXa) -> None:
        """Remove an entry's file."""
        self.path(held).unlink(missing_ok=True)


def _create(folder: Path) -> None:
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in missing:
        sync_directory(path.parent)


class _Overtaken(Exception):
    """The directory vanished while it was read: another run has replaced it."""


def _remove(path: Path) -> None:
    gone = path.with_name(path.name + _GONE)
    with suppress(FileNotFoundError):
        path.rename(gone)  # from now on a stopped process with this path can't create anything there
        shutil.rmtree(gone, ignore_errors=True)  # the next run removes what is left


def _numbers_there(listed: dict[str, Any], kept: Iterable[HeldXa]) -> dict[int, int]:
    """The number of each kept entry in a list that has it, too; another host may have numbered it otherwise.

    A list that does not count any more still tells whose rows its files are, if all that it says of them is the same.
    """
    numbers = {_rows_of(held): held.number for held in map(_entry, listed["held"])}
    return {held.number: numbers[_rows_of(held)] for held in kept if _rows_of(held) in numbers}


def _rows_of(held: HeldXa) -> tuple[object, ...]:
    return held.xid, held.prepared, held.items, held.records, held.bytes, held.left_out


def _link(source: Path, building: Path, numbers: Mapping[int, int]) -> None:
    for here, there in numbers.items():
        try:
            os.link(source / f"{there}{_ROWS}", building / f"{here}{_ROWS}")
        except FileNotFoundError as error:
            if not source.exists() or not building.exists():
                raise _Overtaken from error
            # Only the file is missing: reported when its rows are needed.


def _list_of(directory: Path) -> dict[str, Any] | None:
    """A directory's list; None if it has none: nothing was undecided at its checkpoints.

    Another host may have gone on, and have stored a list at the target.
    """
    path = directory / _LIST
    if not path.exists():
        if not directory.exists():
            raise _Overtaken
        return None
    try:
        reader = SpoolReader(path)
        try:
            found: dict[str, Any] = json.loads(reader.record(0))
        finally:
            reader.close()
    except DMError as error:
        if not directory.exists():
            raise _Overtaken from error
        raise
    PREPARED.demand_known(found.get("format", 0), path)
    return found


def undecided_in(found: dict[str, Any], stored: Position, where: object) -> list[HeldXa] | None:
    """The entries of a list that are undecided at a checkpoint; None if the list does not count there (X4)."""
    PREPARED.demand_known(found.get("format", 0), where)
    uuid, file, offset, gtid_set, flavor = found["reach"]
    reach = Position(uuid, file, offset, GtidSet.parse(gtid_set, flavor))
    if not _covers(reach, stored):
        return None
    return [
        replace(held, verdict=None, passed=True)
        for held in map(_entry, found["held"])
        if (held.passed or _lies_in(held.prepared, stored))
        and not (held.verdict is not None and _lies_in(held.verdict, stored))
    ]


def _covers(reach: Position, stored: Position) -> bool:
    try:
        return reach.covers(stored)
    except DMError:  # of two servers without GTIDs
        return False


def _lies_in(place: TransactionEnd, stored: Position) -> bool:
    try:
        return place.lies_in(stored)
    except DMError:
        # The position is of another server, and nothing relates the two. The run that read it has stored no checkpoint
        # since, or `passed` would be set. So it is after the stored checkpoint.
        return False


def _entry(found: dict[str, Any]) -> HeldXa:
    return HeldXa(
        found["number"],
        found["xid"],
        TransactionEnd.from_json(found["prepared"]),
        found["timestamp"],
        items=found["items"],
        records=found["records"],
        bytes=found["bytes"],
        left_out=frozenset(TableName(schema, table) for schema, table in found["left_out"]),
        verdict=None if found["verdict"] is None else TransactionEnd.from_json(found["verdict"]),
        durable=True,
        passed=found["passed"],
    )


def _write_list(directory: Path, reach: Position, entries: Iterable[HeldXa]) -> str:
    found: dict[str, JSON] = {
        "format": PREPARED.number,
        "reach": [reach.server_uuid, reach.file, reach.offset, str(reach.gtid_set), reach.flavor],
        "held": [
            {
                "number": held.number,
                "xid": held.xid,
                "prepared": held.prepared.to_json(),
                "verdict": None if held.verdict is None else held.verdict.to_json(),
                "timestamp": held.timestamp,
                "items": held.items,
                "records": held.records,
                "bytes": held.bytes,
                "passed": held.passed,
                "left_out": [[table.schema, table.table] for table in sorted(held.left_out)],
            }
            for held in entries
        ],
    }
    text = json.dumps(found)
    payload, path = text.encode(), directory / _LIST
    try:
        write_atomically(path, HEADER.pack(MAGIC, len(payload), crc32(payload)) + payload, durable=True)
    except OSError as error:
        raise DMError("spool-not-written", file=path) from error
    return text
