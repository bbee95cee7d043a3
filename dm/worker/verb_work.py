"""Which method does the work of which verb, and what it may use."""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar, cast

from dm.cluster.membership import Membership
from dm.cluster.placement import Candidate, wished
from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.errors import DMError
from dm.position import TimePlace
from dm.sourcelog.stream.until import Until
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import StructureRequest
from dm.task.branch_requests import BranchRequests
from dm.task.described import described
from dm.task.forgotten import StoredProgress
from dm.task.join_requests import JoinRequests
from dm.task.precheck.context import CheckResult
from dm.task.progress import FinalPlace, RecordedConflicts
from dm.task.shard_locks import ShardLocks
from dm.task.source_listing import SourceListing
from dm.task.start_and_end import AskedEnd, StartTime
from dm.task.validation import Validations
from dm.tools.objects.adapted import Definers
from dm.tools.objects.task_objects import TaskObjects
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile, Verb
from dm.worker.configuration import ConfigReader
from dm.worker.cutovers import CutOvers
from dm.worker.errands import Errands
from dm.worker.forwarding import Forwarding
from dm.worker.history.history import History
from dm.worker.holdings import Holdings
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor

Answer = dict[str, JSON]
Work = Callable[[Verb], Answer]

S = TypeVar("S")
V = TypeVar("V", bound=Verb)

_MARK = "does"


def does(*verbs: type[V]) -> Callable[[Callable[[S, V], Answer]], Callable[[S, V], Answer]]:
    """Mark the method that does the work of these verbs."""

    def mark(work: Callable[[S, V], Answer]) -> Callable[[S, V], Answer]:
        setattr(work, _MARK, verbs)
        return work

    return mark


def work_of(*owners: object) -> Mapping[type[Verb], Work]:
    """By verb, the marked methods of these objects."""
    return {
        verb: cast(Work, getattr(owner, name))
        for owner in owners
        for name, member in vars(type(owner)).items()
        for verb in getattr(member, _MARK, ())
    }


class Exclusion:
    """Verbs that act upon files and targets by what they have seen on the loop: none comes between another's two steps.

    - Of a task: its start, from the prechecks until it is known, and the removal of its progress and its work. A load
      that begins where tables are still removed would lose them; one checked by a checkpoint that goes repeats rows.
    - Of sources: making one known or known otherwise, and removing directories of relays.

    - A run that a person waits for (`diff`, `flashback`, `replay`) begins under its task's, and what removes a task's
      progress or work is refused while one is under way (`Errands.demand_none`).

    A verb that needs both takes tasks first. Whoever has waited looks again at what it was asked for.
    """

    def __init__(self, tasks: Mapping[str, AbstractContextManager[object]] | None = None) -> None:
        self.sources = threading.Lock()
        self._tasks = defaultdict(threading.Lock) if tasks is None else tasks

    @contextmanager
    def tasks(self, *names: str) -> Iterator[None]:
        """Of these tasks; names that a server may fold into one are one."""
        with ExitStack() as held:
            for name in sorted({name.lower() for name in names}):
                held.enter_context(self._tasks[name])
            yield


@dataclass(frozen=True, slots=True)
class OtherHosts:
    """What a member of a cluster has beside what a single host has."""

    membership: Membership
    holdings: Holdings
    forwarding: Forwarding


@dataclass(frozen=True, slots=True)
class Means:
    """What verbs use to do their work."""

    loop: Loop
    supervisor: Supervisor
    servers: Servers
    reader: ConfigReader
    errands: Errands
    cut_overs: CutOvers
    history: History
    shutdown: Callable[[], None]  # asks the daemon to end
    exclusion: Exclusion = field(default_factory=Exclusion)
    others: OtherHosts | None = None  # None: a single host


def demand_member(means: Means, wish: str) -> list[JSON]:
    """Raise DMError unless a member lives that has this name, or this label; gives warnings."""
    if means.others is None:  # scripts that were written for a cluster of DM run as they are
        return [f"-w {wish} has no effect: this dm-worker is no member of a cluster"]
    living = means.others.membership.members.living()
    if not any(wished(wish, Candidate(name, member.labels)) for name, member in living.items()):
        raise DMError("member-unknown", member=wish, there=", ".join(sorted(living)) or "none")
    return []


class VerbWork:
    """Methods that do the work of some verbs."""

    def __init__(self, means: Means) -> None:
        self._means = means
        self._loop, self._supervisor = means.loop, means.supervisor
        self._servers, self._read, self._errands = means.servers, means.reader, means.errands
        self._exclusion = means.exclusion

    def parse_task(self, file: ConfigFile) -> tuple[TaskConfig, list[str]]:
        """What a file says, and warnings; raises DMError."""
        known = self._loop.call(lambda: {name: source.config for name, source in self._supervisor.sources.items()})
        return self._read.task(
            file, {name: config for name, config in known.items() if isinstance(config, SourceConfig)}
        )


class Check(Protocol):
    """The prechecks."""

    def __call__(
        self,
        config: TaskConfig,
        sources: Sequence[str],
        /,
        *,
        anew: bool = False,
        at_time: bool = False,
        work: Path | None = None,
        relays: Mapping[str, Path] | None = None,
    ) -> list[CheckResult]:
        """Everything found about a task on these sources, to go on, to begin anew, or at a time."""
        ...


@dataclass(frozen=True, slots=True)
class ProgressAtTarget:
    """What is asked of a resting subtask's progress, and done to it."""

    demand_sole_run: Callable[[SubtaskConfig], None]  # raises where another daemon runs the subtask

    operate_binlog: Callable[[SubtaskConfig, Request, EventPlace | None], JSON]
    operate_structure: Callable[[SubtaskConfig, StructureRequest], str]


@dataclass(frozen=True, slots=True)
class Servers:
    """What the verbs ask of database servers."""

    verify_source: Callable[[SourceConfig], list[str]]  # gives warnings; raises when the file can't be right
    check: Check
    forget_progress: Callable[[SubtaskConfig, Path], None]  # in the target, and in the work directory
    place_of: Callable[[SubtaskConfig, StartTime, Path], TimePlace]  # in the relay's files or at the source
    begin_at: Callable[[SubtaskConfig, TimePlace], list[str]]  # makes it the checkpoint; gives warnings
    until_of: Callable[[SubtaskConfig, AskedEnd, Path], Until]  # where it is to end; raises when it has come further
    final_place: Callable[[SubtaskConfig], FinalPlace]  # where a subtask that was stopped is
    progress: ProgressAtTarget
    demand_readable: Callable[[SubtaskConfig], None]  # raises when the source lacks what the task has yet to apply
    hold_place: Callable[[SubtaskConfig, Path, Path], None]  # of relay files; before the relay may leave them behind
    locks: ShardLocks = field(default_factory=ShardLocks)
    validations: Validations = field(default_factory=Validations)
    joins: JoinRequests = field(default_factory=JoinRequests)
    stored: StoredProgress = field(default_factory=StoredProgress)
    listing: SourceListing = field(default_factory=SourceListing)
    conflicts: RecordedConflicts = field(default_factory=RecordedConflicts)
    objects: Callable[[Sequence[SubtaskConfig], Definers], TaskObjects] = TaskObjects  # opens sessions
    described: Callable[[SubtaskConfig, Callable[[], bool]], dict[str, JSON]] = described  # as long as there is time
    branches: BranchRequests = field(default_factory=BranchRequests)
