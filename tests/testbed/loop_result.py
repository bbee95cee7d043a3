"""What a crash loop did, whether it hurt, and the seeds it is drawn from."""

from __future__ import annotations

import os
import subprocess
import time
import zlib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dm.unit import JSON

SEED_VARIABLE = "DM_SEED"  # repeats a run


def commit() -> str:
    """The commit under test, or that it is not known."""
    asked = subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=Path(__file__).parent, capture_output=True, text=True, check=False
    )
    return asked.stdout.strip() or "unknown"


def draw_seed(*salt: object) -> int:
    """A seed from the commit, the run and what else tells loops apart; DM_SEED sets it."""
    given = os.environ.get(SEED_VARIABLE)
    return int(given) if given else zlib.crc32(repr((commit(), time.time_ns(), salt)).encode())


@dataclass
class LoopResult:
    """The figures of one loop; `problem` is empty when the target was identical each time and nobody complained."""

    seed: int
    flavor: str
    relay: bool = False
    spooling: bool = False  # the quota is so small that everything goes through the spool
    lives: int = 0
    rounds: int = 0  # comparisons
    fired: Counter[str] = field(default_factory=Counter)
    arbitrary: int = 0  # kills at no point in particular
    inside_transaction: int = 0  # strikes between BEGIN and COMMIT at the target
    second_kills: int = 0  # inside the safe-mode window of the kill before
    thawed: int = 0
    rows: int = 0
    batches: int = 0
    conflicts: int = 0
    spooled: int = 0  # transactions
    safe_mode_rows: int = 0
    event_rows: int = 0  # that went as row events
    ddl: int = 0
    seconds: float = 0.0
    problem: str = ""

    @property
    def identical(self) -> bool:
        """Whether the loop ended as it must."""
        return not self.problem

    @property
    def _second_kills_wanted(self) -> int:
        return 1 + self.lives // 20

    @property
    def lacks_second_kills(self) -> bool:
        """Whether too few have died inside the window of another, for so many lives."""
        return self.second_kills < self._second_kills_wanted

    @property
    def mild(self) -> list[str]:
        """Why the loop proves too little; empty when it hurt."""
        lives = self.lives
        # Where so little is remembered, the lanes are drained, and all keys forgotten, before two of them can meet.
        # And the slower the machine is, the less the lanes have when a row comes that two of them hold the keys of.
        spooled, conflicts = (self.spooled, 2 * lives), (self.conflicts, 1 + lives // 4)
        crowded = ("spooled transactions", spooled) if self.spooling else ("conflicts", conflicts)
        wanted = {
            "strikes inside a target transaction": (self.inside_transaction, 1 + lives // 20),
            "kills inside the safe-mode window of another": (self.second_kills, self._second_kills_wanted),
            "frozen processes thawed beside their successors": (self.thawed, 1 + lives // 40),
            crowded[0]: crowded[1],
            "target transactions": (self.batches, 10 * lives),
            "rows in safe mode": (self.safe_mode_rows, 5 * lives),
            "rows as row events": (self.event_rows, lives),
            "DDL pieces": (self.ddl, 1 + lives // 10),
        }
        return [f"{found} {what}, {least} wanted" for what, (found, least) in wanted.items() if found < least]

    def add(self, status: Mapping[str, JSON]) -> None:
        """Take the counters of a life that is over."""

        def number(name: str) -> int:
            value = status.get(name)
            return value if isinstance(value, int) else 0

        self.rows += number("totalRows")
        self.batches += number("batches")
        self.conflicts += number("conflicts")
        self.spooled += number("spooledTransactions")
        self.safe_mode_rows += number("safeModeRows")
        self.event_rows += number("eventRows")
        self.ddl += number("ddlExecuted")

    def figures(self) -> dict[str, JSON]:
        """As it stands in a result file."""
        return {
            "seed": self.seed,
            "flavor": self.flavor,
            "relay": self.relay,
            "lives": self.lives,
            "comparisons": self.rounds,
            "fired": dict(sorted(self.fired.items())),
            "kills at arbitrary times": self.arbitrary,
            "strikes inside a target transaction": self.inside_transaction,
            "kills inside another's safe-mode window": self.second_kills,
            "frozen and thawed": self.thawed,
            "rows": self.rows,
            "target transactions": self.batches,
            "rows as row events": self.event_rows,
            "conflicts": self.conflicts,
            "spooled transactions": self.spooled,
            "rows in safe mode": self.safe_mode_rows,
            "ddl pieces": self.ddl,
            "seconds": round(self.seconds, 1),
            "problem": self.problem,
            "too mild": list[JSON](self.mild),
        }
