"""Parts: the changes of one bucket, cut into transactions that each count once.

A replay that goes on finds parts done by their numbers. So the cuts depend only on the net effects in the files, and
not on the form in which rows reach the target: that may be another by then (`row-format`, a privilege, a CHECK). Where
a file was written again in between, its images may be of the other form; the numbers of changes tell then.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from dm import faults
from dm.changes.row_change import ChangeKind, RowChange
from dm.downstream.apply import apply_batch
from dm.downstream.attempts import Attempts
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.progress.lane_rows import LaneClaim
from dm.progress.replayed import Part, done_parts, record_part
from dm.replay.reduction import Net

_CHANGES: Final = 5000  # of one transaction
_BYTES: Final = 8 << 20
_IMAGE: Final = 200  # bytes of an image whose size is not known


class Sized(NamedTuple):
    """A change, and how much the net effect that it comes from is in its file."""

    change: RowChange
    size: int


def size_of(net: Net, kind: ChangeKind) -> int:
    """The bytes of the images that a change of this kind is made of."""
    before = None if kind is ChangeKind.INSERT else net.raw_before
    after = None if kind is ChangeKind.DELETE else net.raw_after
    return sum(_IMAGE if raw is None else len(raw) for raw in (before, after))


def cut(changes: Sequence[Sized]) -> Iterator[list[RowChange]]:
    """The changes of each part."""
    part: list[RowChange] = []
    size = 0
    for change, own in changes:
        if part and (len(part) == _CHANGES or size + own > _BYTES):
            yield part
            part, size = [], 0
        part.append(change)
        size += own
    if part:
        yield part


def demand_same_cuts(parts: Sequence[Sequence[RowChange]], done: Mapping[int, int], bucket: int) -> None:
    """Raise DMError where a part that is done had another number of changes."""
    for number, changes in sorted(done.items()):
        now = len(parts[number]) if number < len(parts) else 0
        if now != changes:
            raise DMError("replay-parts-unlike", part=number, bucket=bucket, done=changes, now=now)


def commit_part(connection: TargetConnection, claim: LaneClaim, part: Part, changes: Sequence[RowChange]) -> int:
    """Apply a part in one transaction; gives how many changes went as events. Raises DMError."""

    def last() -> None:
        record_part(connection, claim.key, part, len(changes))
        faults.hit("replay.inside_part")

    attempts = Attempts()
    while True:
        try:
            applied = apply_batch(connection, changes, first=_LaneRow(claim, connection), last=last)
            break
        except DMError as error:
            if attempts.again(error):
                continue
            # The session of a lost executor may have committed it while this one waited for its rows.
            if error.name != "fenced" and _is_done(connection, claim, part, len(changes)):
                return 0
            raise
    faults.hit("replay.part_committed")
    return applied.as_events


def _is_done(connection: TargetConnection, claim: LaneClaim, part: Part, changes: int) -> bool:
    try:
        return done_parts(connection, claim.key, part.phase, part.bucket).get(part.number) == changes
    except DMError:
        return False  # the session is gone, too: what it met first says why


@dataclass(frozen=True, slots=True)
class _LaneRow:
    """How each transaction begins: with the lane's own row."""

    claim: LaneClaim
    connection: TargetConnection

    def statement(self) -> bytes:
        """The row's UPDATE."""
        return self.claim.advancing(self.connection, None)

    def opened(self, affected: int) -> None:
        """Check that the row was ours; raises DMError `fenced`."""
        self.claim.advanced(affected)
