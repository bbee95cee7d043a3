"""A relay from a place to another, cut into pieces that tasks can read side by side.

A transaction never lies in two files of the source, and the relay's index notes the end of one about each MiB. So a
piece begins and ends between two transactions, and nobody has to read what lies before it. A stretch stays within the
files of one server: where the relay goes on with another, it ends.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dm.errors import DMError
from dm.flavor import Flavor
from dm.gtid import GtidSet
from dm.position import MAGIC_SIZE, Position
from dm.progress.file_birth import FileBirth
from dm.progress.replayed import Piece
from dm.relaylog.index import FileIndex, read_index
from dm.relaylog.layout import RelayDirectory, SubDirectory, file_number
from dm.relaylog.recovery import gtids_at
from dm.relaylog.scan import created_at, scan

PIECE_BYTES: Final = 16 << 20


@dataclass(frozen=True, slots=True)
class RelayStretch:
    """The relay's files that a stretch lies in."""

    sub: SubDirectory
    start: Position
    flavor: Flavor

    @classmethod
    def at(cls, relay: Path, start: Position, flavor: Flavor) -> RelayStretch:
        """The stretch behind a checkpoint; raises DMError where the relay does not have its file."""
        for sub in reversed(RelayDirectory(relay).sub_directories()):
            if sub.server_uuid == start.server_uuid and start.file in sub.files():
                return cls(sub, start, flavor)
        raise DMError("replay-without-relay", place=start, server=start.server_uuid)

    def pieces(self, size: int = PIECE_BYTES, end: Position | None = None) -> list[Piece]:
        """The pieces, each of about `size` bytes, up to the relay's present end or to `end`, if that comes first."""
        found: list[Piece] = []
        for name in self._files():
            if end is not None and file_number(name) > end.file_number:
                break
            limit = end.offset if end is not None and name == end.file else None
            found += _cut(name, self._index(name), self._begin(name), size, limit)
        return found

    def _files(self) -> list[str]:
        return [name for name in self.sub.files() if file_number(name) >= self.start.file_number]

    def _begin(self, name: str) -> int:
        return max(self.start.offset, MAGIC_SIZE) if name == self.start.file else MAGIC_SIZE

    def _index(self, name: str) -> FileIndex:
        path, idx = self.sub.file(name), self.sub.idx(name)
        known = read_index(idx, path.stat().st_size)
        if known is not None and known.final:
            return known
        found = scan(path, idx, self.flavor)
        return FileIndex() if found is None else found.index

    def place(self, file: str, offset: int) -> Position:
        """A place of the stretch, with everything that was processed there; raises DMError."""
        gtids: GtidSet = self.start.gtid_set
        if gtids or file != self.start.file or self.start.offset <= MAGIC_SIZE:
            index = self._index(file)
            known = index.gtids if index.complete == offset else gtids_at(self.sub, file, offset, self.flavor)
            gtids |= known
        return Position(self.start.server_uuid, file, offset, gtids)

    def birth(self, file: str) -> FileBirth | None:
        """When the source began the file."""
        created = created_at(self.sub.file(file))
        return None if created is None else FileBirth(self.sub.server_uuid, file, created)


def _cut(name: str, index: FileIndex, begin: int, size: int, limit: int | None) -> Iterator[Piece]:
    end = index.complete if limit is None else min(limit, index.complete)
    if end <= begin:
        return
    at = begin
    for mark, _ in index.marks:
        if mark - at >= size and mark < end:
            yield Piece(name, at, mark)
            at = mark
    yield Piece(name, at, end)


def total_bytes(pieces: Sequence[Piece]) -> int:
    """How long they are."""
    return sum(piece.end - piece.begin for piece in pieces)
