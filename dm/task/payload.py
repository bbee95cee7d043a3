"""What a unit is given to start with, and its form on the pipe to the host process.

That form is pydantic's, whatever the fields are: settings, options, paths. Only a place has one of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import PlainSerializer, PlainValidator, TypeAdapter, ValidationError

from dm.config import SourceConfig, SubtaskConfig
from dm.dumpfiles.s3_storage import S3Storage
from dm.dumpfiles.storage import DumpStorage, LocalStorage
from dm.position import Position
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.until import Until, until_from_json, until_to_json
from dm.tools.errands import DiffRequest, FlashbackRequest, HealRequest, RelayedSubtask, ReplayRequest
from dm.unit import JSON

SCRATCH = ".spark"
REPORTS = ".dump"  # of workers, where the dump itself is in object storage


def dump_directory(config: SubtaskConfig, work_directory: Path) -> Path:
    """Where a subtask's dump files are: DM's place, the loader's `dir`, a dot and the task's name.

    A task that only loads takes `dir` as it stands, as in DM: the files are somebody else's. A relative `dir` begins
    where all tasks have their work directories. Where a task has several sources, which in DM are on machines of their
    own, each has a directory in that.
    """
    named = config.loader.dir.rstrip("/") or "/"
    # As in DM, a name that ends so already stays.
    as_it_stands = config.mode in ("load", "load&sync") or named.endswith(f".{config.task}")
    place = work_directory.parent / (named if as_it_stands else f"{named}.{config.task}")
    return place if config.sole_source else place / config.source_id


def dump_storage(config: SubtaskConfig, work_directory: Path) -> DumpStorage:
    """The place of a subtask's dump.

    In object storage a task has a part of `dir` for each of its sources, `TASK.SOURCE`, as in DM. One that only loads
    takes `dir` as it stands there, too.
    """
    place = config.loader.storage
    if place is None:
        return LocalStorage(dump_directory(config, work_directory))
    if config.mode not in ("load", "load&sync"):
        place = place.within(f"{config.task}.{config.source_id}")
    elif not config.sole_source:
        place = place.within(config.source_id)
    return S3Storage(place, work_directory / REPORTS / config.source_id)


def sync_directory(work_directory: Path, source: str) -> Path:
    """Where the syncer of a source keeps what is on disk for the moment, in its task's work directory."""
    return work_directory / ".sync" / source


def validator_directory(work_directory: Path, source: str) -> Path:
    """Where the validator of a source keeps what is on disk, in its task's work directory."""
    return work_directory / ".validator" / source


def validator_hold(task: str) -> str:
    """Under which name a task's validator holds relay files, which may be older than those of the syncer."""
    return f"{task} (validator)"


def join_directory(work_directory: Path, source: str) -> Path:
    """Where tables that are loaded beside the stream of a source have what is on disk."""
    return work_directory / ".join" / source


def replay_directory(work_directory: Path, source: str) -> Path:
    """Where a replay of a source's backlog has what is between reading and applying."""
    return work_directory / ".replay" / source


class Payload:
    """Goes to a host process as JSON."""

    __slots__ = ()

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        wire: dict[str, JSON] = _adapter(type(self)).dump_python(self, mode="json", context={"reveal": True})
        return wire

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> Self:
        """The inverse of `to_wire`; raises ValueError without what was given, which may be a password."""
        try:
            made: Self = _adapter(cls).validate_python(wire)
        except ValidationError as error:
            problems = [f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in error.errors()]
            raise ValueError(f"no {cls.__name__}: {'; '.join(problems)}") from None
        return made


_ADAPTERS: Final[dict[type[Payload], TypeAdapter[Any]]] = {}


def _adapter(kind: type[Payload]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]


_End = Annotated[Until | None, PlainValidator(until_from_json), PlainSerializer(until_to_json, return_type=Any)]
_Place = Annotated[Position, PlainValidator(Position.from_json), PlainSerializer(Position.to_json, return_type=Any)]


@dataclass(frozen=True, slots=True)
class RelayPayload(Payload):
    """A relay's source and its directory."""

    source: SourceConfig
    directory: Path


@dataclass(frozen=True, slots=True)
class UnitPayload(Payload):
    """A subtask's configuration and its places on disk."""

    config: SubtaskConfig
    relay_directory: Path | None  # None: the binlog comes from the source itself
    work_directory: Path  # of the task: its sources have a part of it each
    hold_in: Path | None = None  # the relay directory in which the task holds files; None: it reads no binlog
    until: _End = None  # where the syncer is to end
    branch: str = ""  # of a unit of tables that come back: the number of their branch

    @property
    def hold(self) -> Hold | None:
        """What tells the relay which files the subtask still needs."""
        return None if self.hold_in is None else Hold(self.hold_in, self.config.task)

    @property
    def dump_storage(self) -> DumpStorage:
        """Where the subtask's dump files are."""
        return dump_storage(self.config, self.work_directory)

    @property
    def sync_directory(self) -> Path:
        """Where the subtask's syncer writes; a source can't be called like it."""
        return sync_directory(self.work_directory, self.config.source_id)

    @property
    def scratch(self) -> Path:
        """Where the task's Spark session writes; a source can't be called like it."""
        return self.work_directory / SCRATCH


@dataclass(frozen=True, slots=True)
class ValidatorPayload(Payload):
    """What a validator needs: its subtask with the mode that counts, its places on disk, where it begins."""

    config: SubtaskConfig
    relay_directory: Path | None
    work_directory: Path  # its own
    hold_in: Path | None
    start: _Place | None = None

    @property
    def hold(self) -> Hold | None:
        """What tells the relay which files it still needs."""
        return None if self.hold_in is None else Hold(self.hold_in, validator_hold(self.config.task))


@dataclass(frozen=True, slots=True)
class DiffPayload(Payload):
    """What a comparison of a task needs."""

    subtasks: tuple[SubtaskConfig, ...]
    options: DiffRequest
    scratch: Path  # where its Spark session writes
    directory: Path  # where comparisons of the task keep what is done
    relays: Mapping[str, Path] = field(default_factory=dict)  # by source, of those that have one
    others: tuple[SubtaskConfig, ...] = ()  # that may have rows at the target, where statements are written


@dataclass(frozen=True, slots=True)
class FlashbackPayload(Payload):
    """What a flashback of a task needs."""

    sources: tuple[RelayedSubtask, ...]
    request: FlashbackRequest
    scratch: Path  # where it puts the statements in order


@dataclass(frozen=True, slots=True)
class ReplayPayload(Payload):
    """What a replay of a subtask's backlog needs."""

    request: ReplayRequest
    scratch: Path  # where its Spark session writes


@dataclass(frozen=True, slots=True)
class HealPayload(Payload):
    """What a heal needs."""

    request: HealRequest
    scratch: Path  # where its Spark session writes
