"""What a comparison has found, as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from dm.diff.versions import Difference
from dm.ident import TableName
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
    fix_file: str = ""

    def forget(self) -> None:
        """All that was found about its rows."""
        self.source_rows = self.target_rows = self.done = self.differing = self.unsettled = self.undecided = 0
        self.shown, self.not_fixed, self.fix_file = [], [], ""
        self.undecided_keys, self.undecided_why = [], ""

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
                "fixSql": self.fix_file, "withoutFix": self.not_fixed,
            },
        )  # fmt: skip


@dataclass
class Report:
    """All of it, also while it is under way."""

    phase: str = "reading structures"
    tables: list[TableReport] = field(default_factory=list)
    seconds: float = 0.0
    over: bool = False

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
            "verdict": self.verdict if self.over else "",
            "report": [table.to_json() for table in self.tables] if self.over else [],
        }  # fmt: skip
