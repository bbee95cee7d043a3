"""Whether the directories of relay and dump files can be used, asked before anything relies on them.

A directory that is needed no more must not keep a task from going on: a task that has loaded already needs no place for
dump files. Who asks the target for that is asked only where a directory can't be used.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.task.payload import dump_directory
from dm.task.precheck.result import CheckResult
from dm.task.subtask import UNITS_OF_MODE
from dm.unit import UnitName

FirstUnit = Callable[[SubtaskConfig], UnitName | None]


def unusable(directory: Path) -> str:
    """Why files can't be made there, empty where they can; what was made to find out is removed again."""
    missing = [place for place in (directory, *directory.parents) if not os.path.lexists(place)]
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=directory):
            return ""
    except OSError as error:
        return f"{error.strerror or error}: {error.filename or directory}"
    finally:
        for place in missing:
            with suppress(OSError):
                place.rmdir()


def demand_relay_directory(source: str, directory: Path) -> None:
    """Raise DMError when relay files can't be stored there."""
    why = unusable(directory)
    if why:
        raise DMError("relay-directory-unusable", source=source, directory=directory, cause=why)


def directories(config: SubtaskConfig, work: Path, relay: Path, first_unit: FirstUnit | None) -> Iterator[CheckResult]:
    """What is wrong with the directories that the subtask will write to; `first_unit` says with what it goes on."""
    units = UNITS_OF_MODE[config.mode]
    if units[0] == "Sync":
        return
    subject = f"source {config.source_id}"
    if "Dump" in units:
        place = dump_directory(config, work)
        why = unusable(place)
        if why and _copies(config, first_unit):
            error = DMError("dump-directory-unusable", directory=place)
            yield CheckResult("dump_directory", subject, "failure", f"{error.message}: {why}", error.workaround)
    if "Sync" in units:
        why = unusable(relay)
        if why:
            error = DMError("relay-directory-unusable", source=config.source_id, directory=relay)
            yield CheckResult("relay_directory", subject, "failure", f"{error.message}: {why}", error.workaround)


def _copies(config: SubtaskConfig, first_unit: FirstUnit | None) -> bool:
    if first_unit is None:
        return True
    try:
        return first_unit(config) == "Dump"
    except DMError:
        return True  # what keeps the target from telling is a finding of its own
