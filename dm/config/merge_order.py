"""In which order the changes of several sources reach the tables that they share."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict

MergeOrder = Literal["", "commit-time"]
SilentSource = Literal["pause", "continue"]

HOLD_SECONDS = 60.0


class CommitTimeOrder(BaseModel):
    """`merge-order: commit-time`, as a unit's process gets it."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    sources: tuple[str, ...]  # all sources of the task
    hold: float = HOLD_SECONDS  # seconds for which a silent source holds the others
    silent: SilentSource = "pause"
