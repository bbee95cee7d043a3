"""How far a replay is, for people: beside the verb that began it, and in `query-status`."""

from __future__ import annotations

from typing import Any

from dm.plural import counted


def replay_progress(answer: dict[str, Any]) -> str:
    """One line."""
    phase = str(answer.get("phase", "starting"))
    if phase == "reading":
        size = answer["doneBytes"] / (1 << 20)
        return f"reading: {size:.0f} of {answer['bytes'] / (1 << 20):.0f} MB, {counted(answer['changes'], 'change')}"
    if phase in ("removing", "writing"):
        return f"{phase}: {answer['doneBuckets']} of {answer['buckets']} parts, {counted(answer['applied'], 'change')}"
    return phase
