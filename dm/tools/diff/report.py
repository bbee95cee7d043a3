"""What a comparison has found, as JSON."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Final, Generic, Literal, TypeVar, cast

from dm.ident import TableName
from dm.tools.diff.chunk import Chunk, ChunkOutcome
from dm.tools.diff.fix import Fix
from dm.tools.diff.recent import RecentRows
from dm.tools.diff.snapshot import Lag
from dm.tools.diff.versions import Difference
from dm.unit import JSON

Verdict = Literal["equal", "different", "not compared"]


@dataclass
class TableReport:
    """One table of the target."""

    name: TableName
    structure: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)  # how optimistic shards differ, which is no difference
    not_compared: str = ""  # why
    source_rows: int = 0
    target_rows: int = 0
    chunks: int = 0
    done: int = 0
    differing: int = 0  # rows
    shown: list[Difference] = field(default_factory=list)
    unsettled: int = 0  # rows that differed each time they were looked at, but changed in between
    undecided: int = 0  # rows that differed, before the target was waited for in vain
    undecided_keys: list[str] = field(default_factory=list)  # of some of them
    undecided_why: str = ""
    not_fixed: list[str] = field(default_factory=list)  # why some difference has no statement
    kept: int = 0  # rows that only the target has, and whose DELETE is a comment
    why_kept: str = ""
    fix_file: str = ""
    rests: RecentRows | None = None  # on an earlier comparison: only these rows are compared
    whole_because: str = ""  # why all rows are, where that was not asked for
    digest: str = ""  # of the sums of all chunks, where they are equal

    def forget(self) -> None:
        """All that was found about its rows."""
        self.source_rows = self.target_rows = self.done = self.differing = self.unsettled = self.undecided = 0
        self.shown, self.not_fixed, self.fix_file = [], [], ""
        self.kept, self.why_kept = 0, ""
        self.undecided_keys, self.undecided_why = [], ""

    def note(self, fix: Fix) -> None:
        """Of a row that differs, what a person is told of its statements."""
        if fix.impossible and fix.impossible not in self.not_fixed:
            self.not_fixed.append(fix.impossible)
        if fix.kept:
            self.kept, self.why_kept = self.kept + 1, fix.why_kept

    def leave_open(self, identities: Collection[str], rows: OpenRows, shown: int) -> None:
        """Rows that are not decided, with the keys of so many."""
        if rows.lag is None:
            self.unsettled += len(identities)
            return
        self.undecided += len(identities)
        self.undecided_why = str(rows.lag)
        keys = [rows.keys[identity] for identity in identities if identity in rows.keys]
        self.undecided_keys += keys[: shown - len(self.undecided_keys)]

    @property
    def verdict(self) -> Verdict:
        """What is known."""
        if self.structure or self.differing:
            return "different"
        return "not compared" if self.not_compared or self.unsettled or self.undecided else "equal"

    def to_json(self) -> dict[str, JSON]:
        """For `--output json`."""
        rows = [
            {
                "key": each.key, "columns": list(each.columns), "source": each.source, "target": each.target,
                "timesAtSource": each.sources, "timesAtTarget": each.targets,
            }
            for each in self.shown
        ]  # fmt: skip
        return cast(
            "dict[str, JSON]",
            {
                "table": str(self.name), "verdict": self.verdict, "structure": self.structure,
                "allowedStructure": self.allowed,
                "notCompared": self.not_compared, "sourceRows": self.source_rows, "targetRows": self.target_rows,
                "differingRows": self.differing, "unsettledRows": self.unsettled, "rows": rows,
                "undecidedRows": self.undecided, "undecidedKeys": self.undecided_keys,
                "undecidedWhy": self.undecided_why,
                "restsOn": None if self.rests is None else self.rests.to_json(),
                "wholeBecause": self.whole_because, "digest": self.digest,
                "fixSql": self.fix_file, "withoutFix": self.not_fixed,
                "keptRows": self.kept, "keptBecause": self.why_kept,
            },
        )  # fmt: skip


@dataclass
class DiffReport:
    """All of it, also while it is under way."""

    phase: str = "reading structures"
    tables: list[TableReport] = field(default_factory=list)
    seconds: float = 0.0
    over: bool = False
    seconds_of_all: float | None = None  # that a comparison of all rows takes, told by a sample
    not_recorded: str = ""  # why what was found is not stored at the target

    @property
    def verdict(self) -> Verdict:
        """Different if a table is; equal only if all are."""
        verdicts = {table.verdict for table in self.tables}
        if "different" in verdicts:
            return "different"
        return "equal" if verdicts == {"equal"} else "not compared"

    def status(self) -> Mapping[str, JSON]:
        """What a person who waits may know."""
        done, chunks = (sum(getattr(table, name) for table in self.tables) for name in ("done", "chunks"))
        left = self.seconds / done * (chunks - done) if done else None
        return {
            "phase": self.phase, "doneChunks": done, "totalChunks": chunks, "tables": len(self.tables),
            "rows": sum(table.target_rows for table in self.tables), "seconds": round(self.seconds, 1),
            "secondsLeft": None if left is None else round(left, 1), "over": self.over,
            "secondsOfAll": self.seconds_of_all,
            "verdict": self.verdict if self.over else "",
            "notRecorded": self.not_recorded,
            "report": [table.to_json() for table in self.tables] if self.over else [],
        }  # fmt: skip


Place = TypeVar("Place")  # a chunk, or a table
Told = TypeVar("Told")

SAME_LOOKS: Final = 4  # in a row, while the sources are written to


@dataclass
class Found:
    """What one look has found."""

    different: dict[Chunk, dict[str, Difference]] = field(default_factory=dict)  # by what a row and both versions are
    cut: dict[Chunk, tuple[Chunk, ...]] = field(default_factory=dict)  # what differs too much, and its slices
    changed: dict[int, str] = field(default_factory=dict)  # tables that are not what was planned, in a server's words
    kept: int = 0  # the most rows that were kept at a time
    size: int = 0  # bytes that the differences take, roughly

    def hear(self, outcome: ChunkOutcome) -> None:
        """What was found about a chunk."""
        self.kept = max(self.kept, outcome.kept)
        if outcome.changed:
            self.changed[outcome.chunk.table] = outcome.changed
        elif outcome.slices:
            self.cut[outcome.chunk] = tuple(replace(outcome.chunk, slice=some) for some in outcome.slices)
        elif outcome.differences:
            self.different[outcome.chunk] = {each.identity: each for each in outcome.differences}
            self.size += sum(each.size for each in outcome.differences)


@dataclass
class OpenRows:
    """What is known of rows that are not decided in the end."""

    lag: Lag | None = None  # why; None: they came to no rest
    keys: dict[str, str] = field(default_factory=dict)  # of those that were told in words, by what a row is

    def name(self, found: Found) -> None:
        """Keep the keys of what a look has found."""
        rows = chain.from_iterable(each.values() for each in found.different.values())
        self.keys.update((each.identity, each.key) for each in rows if each.key)


class Suspects(Generic[Place, Told]):
    """What differed at the last look, by what it was, and what of it is different.

    While a syncer applies changes, a look also sees rows that are on their way. Between two looks the comparison waits
    until the target is past the sources' position at the first look. A row that differs in the same way at both looks
    is different, or it has changed and changed back: a flag that is set and cleared, a keyless row of which an equal
    one comes and goes. Two looks can't tell these apart. If the sources' binlogs have not moved since the wait, nothing
    is on its way and that look decides. If they have, a row counts as different once it is seen in the same way four
    times in a row.
    """

    def __init__(self, first: Mapping[Place, Mapping[str, Told]]) -> None:
        self._looks = {place: dict.fromkeys(found, 1) for place, found in first.items()}
        self._confirmed = dict[Place, dict[str, Told]]()

    @property
    def open(self) -> list[Place]:
        """Those to be looked at again."""
        return [place for place, looks in self._looks.items() if looks]

    def look(
        self, found: Mapping[Place, Mapping[str, Told]], *, rests: bool, at: Container[Place] | None = None
    ) -> None:
        """Another look at what is open, or only at those; `rests`: all that was written by then, the target has."""
        for place in self.open:
            if at is not None and place not in at:
                continue
            known = self._confirmed.setdefault(place, {})
            seen = {identity: each for identity, each in found.get(place, {}).items() if identity not in known}
            looks = {identity: self._looks[place].get(identity, 0) + 1 for identity in seen}
            known |= {identity: each for identity, each in seen.items() if rests or looks[identity] >= SAME_LOOKS}
            self._looks[place] = {identity: number for identity, number in looks.items() if identity not in known}

    def forget(self, places: Iterable[Place]) -> None:
        """These begin anew elsewhere; what was found of them is found again."""
        for place in places:
            self._looks.pop(place, None)
            self._confirmed.pop(place, None)

    def confirmed(self) -> Iterable[tuple[Place, list[Told]]]:
        """What is different."""
        return [(place, list(found.values())) for place, found in self._confirmed.items() if found]

    def unsettled(self) -> Iterable[tuple[Place, list[str]]]:
        """What did not come to rest, or was not looked at often enough, by what it is."""
        return [(place, list(looks)) for place, looks in self._looks.items() if looks]
