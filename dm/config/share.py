"""A part of a task's tables: those that are loaded beside its stream (`dm.progress.joining`)."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from dm.config.selection import BlockAllowList


class Share(BaseModel):
    """Certain tables of the source, or all that an older list of the task did not want."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    tables: tuple[tuple[str, str], ...] = ()
    older: BlockAllowList | None = None
    """The list of before; where it is given, it decides, and no tables are named."""
