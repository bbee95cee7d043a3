"""What a unit is given to start with, and its form on the pipe to the host process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dm.config import SourceConfig, SubtaskConfig
from dm.dumpfiles.s3_storage import S3Storage
from dm.dumpfiles.storage import DumpStorage, LocalStorage
from dm.gtid import GtidSet
from dm.mysql.dialect import Flavor
from dm.position import Position
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.until import Until, until_from_json, until_to_json
from dm.tools.errands import DiffOptions, FlashbackRequest, RelayedSubtask, ReplayRequest
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


@dataclass(frozen=True, slots=True)
class RelayPayload:
    """A relay's source and its directory."""

    source: SourceConfig
    directory: Path

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {"source": self.source.to_wire(), "directory": str(self.directory)}

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> RelayPayload:
        """The inverse of `to_wire`."""
        return cls(SourceConfig.from_wire(wire["source"]), Path(str(wire["directory"])))


@dataclass(frozen=True, slots=True)
class UnitPayload:
    """A subtask's configuration and its places on disk."""

    config: SubtaskConfig
    relay_directory: Path | None  # None: the binlog comes from the source itself
    work_directory: Path  # of the task: its sources have a part of it each
    hold_in: Path | None = None  # the relay directory in which the task holds files; None: it reads no binlog
    until: Until | None = None  # where the syncer is to end

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

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {
            "config": self.config.to_wire(),
            "relay_directory": None if self.relay_directory is None else str(self.relay_directory),
            "work_directory": str(self.work_directory),
            "hold_in": None if self.hold_in is None else str(self.hold_in),
            "until": until_to_json(self.until),
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> UnitPayload:
        """The inverse of `to_wire`."""
        relay, hold_in = wire["relay_directory"], wire["hold_in"]
        return cls(
            SubtaskConfig.from_wire(wire["config"]),
            None if relay is None else Path(str(relay)),
            Path(str(wire["work_directory"])),
            None if hold_in is None else Path(str(hold_in)),
            until_from_json(wire.get("until")),
        )


@dataclass(frozen=True, slots=True)
class ValidatorPayload:
    """What a validator needs: its subtask with the mode that counts, its places on disk, where it begins."""

    config: SubtaskConfig
    relay_directory: Path | None
    work_directory: Path  # its own
    hold_in: Path | None
    start: Position | None = None

    @property
    def hold(self) -> Hold | None:
        """What tells the relay which files it still needs."""
        return None if self.hold_in is None else Hold(self.hold_in, validator_hold(self.config.task))

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        start = self.start
        return {
            "config": self.config.to_wire(),
            "relay_directory": None if self.relay_directory is None else str(self.relay_directory),
            "work_directory": str(self.work_directory),
            "hold_in": None if self.hold_in is None else str(self.hold_in),
            "start": None if start is None else position_to_json(start),
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> ValidatorPayload:
        """The inverse of `to_wire`."""
        relay, hold_in, start = wire["relay_directory"], wire["hold_in"], wire["start"]
        return cls(
            SubtaskConfig.from_wire(wire["config"]),
            None if relay is None else Path(str(relay)),
            Path(str(wire["work_directory"])),
            None if hold_in is None else Path(str(hold_in)),
            None if start is None else position_from_json(start),
        )


def position_to_json(position: Position) -> JSON:
    """A place for the pipe, or for the registry."""
    return [position.server_uuid, position.file, position.offset, str(position.gtid_set), position.flavor]


def position_from_json(stored: JSON) -> Position:
    """The inverse."""
    uuid, file, offset, gtids, flavor = cast("list[str]", stored)
    return Position(uuid, file, int(offset), GtidSet.parse(gtids, cast("Flavor", flavor)))


@dataclass(frozen=True, slots=True)
class DiffPayload:
    """What a comparison of a task needs."""

    subtasks: tuple[SubtaskConfig, ...]
    options: DiffOptions
    scratch: Path  # where its Spark session writes
    directory: Path  # where comparisons of the task keep what is done
    relays: Mapping[str, Path] = field(default_factory=dict)  # by source, of those that have one

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {
            "directory": str(self.directory),
            "subtasks": [subtask.to_wire() for subtask in self.subtasks],
            "options": self.options.to_wire(),
            "scratch": str(self.scratch),
            "relays": {source: str(relay) for source, relay in self.relays.items()},
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> DiffPayload:
        """The inverse of `to_wire`."""
        subtasks, options = cast("list[JSON]", wire["subtasks"]), cast("dict[str, JSON]", wire["options"])
        return cls(
            tuple(map(SubtaskConfig.from_wire, subtasks)),
            DiffOptions.from_wire(options),
            Path(str(wire["scratch"])),
            Path(str(wire["directory"])),
            {source: Path(str(relay)) for source, relay in cast("dict[str, JSON]", wire["relays"]).items()},
        )


@dataclass(frozen=True, slots=True)
class FlashbackPayload:
    """What a flashback of a task needs."""

    sources: tuple[RelayedSubtask, ...]
    request: FlashbackRequest
    scratch: Path  # where it puts the statements in order

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {
            "sources": [source.to_wire() for source in self.sources],
            "request": self.request.to_wire(),
            "scratch": str(self.scratch),
        }

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> FlashbackPayload:
        """The inverse of `to_wire`."""
        sources = cast("list[dict[str, JSON]]", wire["sources"])
        request = cast("dict[str, JSON]", wire["request"])
        return cls(
            tuple(map(RelayedSubtask.from_wire, sources)),
            FlashbackRequest.from_wire(request),
            Path(str(wire["scratch"])),
        )


@dataclass(frozen=True, slots=True)
class ReplayPayload:
    """What a replay of a subtask's backlog needs."""

    request: ReplayRequest
    scratch: Path  # where its Spark session writes

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {"request": cast("JSON", self.request.to_wire()), "scratch": str(self.scratch)}

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> ReplayPayload:
        """The inverse of `to_wire`."""
        request = cast("dict[str, JSON]", wire["request"])
        return cls(ReplayRequest.from_wire(request), Path(str(wire["scratch"])))
