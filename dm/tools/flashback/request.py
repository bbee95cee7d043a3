"""What a person asks of a flashback, and what came of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from dm.config.subtask import SubtaskConfig
from dm.position import Position
from dm.unit import JSON


@dataclass(frozen=True, slots=True)
class FlashbackRequest:
    """The options of `dmctl flashback`; places as they were written."""

    begin: str
    end: str = ""  # empty: as far as the target is
    tables: tuple[str, ...] = ()  # of the target, `schema.table`; all when none is named
    directory: str = "."

    def to_wire(self) -> dict[str, JSON]:
        """As JSON."""
        return {"begin": self.begin, "end": self.end, "tables": list(self.tables), "directory": self.directory}

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> FlashbackRequest:
        """The inverse."""
        tables = cast("list[str]", wire["tables"])
        return cls(str(wire["begin"]), str(wire["end"]), tuple(tables), str(wire["directory"]))


@dataclass(frozen=True, slots=True)
class RelayedSubtask:
    """A subtask, and where the relay of its source is."""

    subtask: SubtaskConfig
    relay: Path

    def to_wire(self) -> dict[str, JSON]:
        """With passwords: for the pipe only."""
        return {"subtask": self.subtask.to_wire(), "relay": str(self.relay)}

    @classmethod
    def from_wire(cls, wire: Mapping[str, JSON]) -> RelayedSubtask:
        """The inverse."""
        return cls(SubtaskConfig.from_wire(wire["subtask"]), Path(str(wire["relay"])))


@dataclass(frozen=True, slots=True)
class DdlMet:
    """A statement in the stretch, which is not taken back."""

    place: str
    text: str


@dataclass
class SourceReport:
    """What was written for one source."""

    source: str
    begin: Position | None = None
    end: Position | None = None
    transactions: int = 0
    statements: Counter[str] = field(default_factory=Counter)  # by table of the target
    ddl: list[DdlMet] = field(default_factory=list)
    ddl_untold: int = 0
    file: str = ""

    def to_json(self) -> dict[str, JSON]:
        """For `--output json`."""
        return cast(
            "dict[str, JSON]",
            {
                "source": self.source, "from": place_of(self.begin), "to": place_of(self.end),
                "fromGtid": "" if self.begin is None else str(self.begin.gtid_set),
                "toGtid": "" if self.end is None else str(self.end.gtid_set),
                "transactions": self.transactions, "statements": self.statements.total(),
                "tables": dict(sorted(self.statements.items())),
                "ddl": [{"place": each.place, "statement": each.text} for each in self.ddl],
                "ddlNotShown": self.ddl_untold, "file": self.file,
            },
        )  # fmt: skip


def place_of(position: Position | None) -> str:
    """File and offset; the GTID set, where a person has given nothing else."""
    if position is None:
        return ""
    return str(position) if position.file else f"GTID set {position.gtid_set}"
