"""The parts of the progress protocol's model (`progress_model.py`): a source's history, a target, runs and sessions."""

from __future__ import annotations

from typing import Literal, NamedTuple

Action = Literal["", "skip", "replace", "inject"]
Way = Literal["lanes", "atomic"]


class Change(NamedTuple):
    """A keyed change (`old` is the key it removes, `new` the key it writes) or a keyless insert (both None)."""

    old: str | None
    new: str | None
    value: int

    @property
    def keys(self) -> frozenset[str]:
        """The keys of both images."""
        return frozenset(key for key in (self.old, self.new) if key is not None)


class Statement(NamedTuple):
    """A DDL event; each piece leaves its letter in the structure."""

    pieces: str


Transaction = tuple[Change, ...] | Statement

# Insert, update in place, key move onto a row deleted just before, reuse of the freed key, keyless rows in between.
HISTORY: tuple[Transaction, ...] = (
    (Change(None, "a", 1), Change(None, None, 1)),
    (Change(None, "b", 2),),
    (Change("b", None, 0), Change("a", "b", 3)),
    (Change(None, "a", 4), Change(None, None, 2)),
)

# The same around two DDL events in a row, and what a person may want instead of the first one or before it.
STATEMENT = Statement("pq")
NEXT = Statement("t")
DDL_HISTORY: tuple[Transaction, ...] = (
    (Change(None, "a", 1), Change(None, None, 1)),
    STATEMENT,
    NEXT,
    (Change("a", "a", 2),),
)
REPLACEMENT, INJECTED = "rs", "ij"


class Intent(NamedTuple):
    """The piece that may be under way, by its event and number, and the structure before it."""

    place: int  # of the event in the history
    number: int
    piece: str
    before: str


class Event(NamedTuple):
    """What the target knows of the DDL events; operators are of the first one."""

    structure: str = ""  # the pieces that were executed
    intent: Intent | None = None
    operator: Action = ""
    injected: bool = False
    before: str | None = None  # the structure when the operator was acknowledged
    late: str = ""  # the piece in a session whose process is gone


class Reading(NamedTuple):
    """What a run makes of a DDL event."""

    pieces: str
    injecting: bool
    intent: Intent | None  # of an older run, at this place
    number: int = 0
    announced: bool = False


class Target(NamedTuple):
    """What the target has committed. Positions are numbers of transactions; 0 is before the first."""

    rows: frozenset[tuple[str, int]] = frozenset()
    keyless: tuple[int, ...] = ()
    epochs: tuple[int, ...] = ()  # per lane
    positions: tuple[int, ...] = ()  # per lane
    checkpoint: int = 0  # L
    bound: int = 0  # B; 0 for none
    event: Event | None = None  # where the history has one


class Job(NamedTuple):
    """What goes through a lane as one: a change, or all of a transaction."""

    changes: tuple[Change, ...]
    position: int  # of its transaction
    safe: bool

    @property
    def keys(self) -> frozenset[str]:
        """The keys of all of it."""
        return frozenset(key for change in self.changes for key in change.keys)


class Session(NamedTuple):
    """An open target transaction: it has passed the epoch check and holds its lane's row."""

    lane: int
    job: Job


class Run(NamedTuple):
    """The memory of one syncer process."""

    way: Way
    epoch: int
    bound: int
    keyless_done: int
    atomic_done: int
    next: tuple[int, int]  # transaction, change: what is dispatched next
    queues: tuple[tuple[Job, ...], ...]
    sessions: tuple[Session, ...] = ()
    intent: Intent | None = None
    reading: Reading | None = None
    held: bool = False  # the end of the last DDL event is not stored yet


class State(NamedTuple):
    """Everything at one instant."""

    target: Target
    run: Run | None
    frozen: Run | None  # an older process that may go on at any time
    orphans: tuple[Session, ...]  # sessions whose process is gone
    crashes: int
