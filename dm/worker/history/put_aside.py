"""Files of the history that can't be read are put aside: nothing depends on them, so nothing stops for them."""

from __future__ import annotations

from pathlib import Path

import structlog

from dm.errors import DMError


class UnreadableHistory(Exception):
    """What is wrong with a file."""


def put_aside(path: Path, problem: str) -> DMError:
    """Give the file another name, so that a new one is begun; returns the warning, which is in the log as well."""
    aside = path.with_name(f"{path.name}.unreadable")
    try:
        path.replace(aside)
    except OSError as error:
        problem = f"{problem}; it can't be renamed either: {error.strerror}"
    warning = DMError("history-unreadable", path=path, problem=problem, aside=aside)
    structlog.get_logger().warning("history begins anew", error=warning)
    return warning
