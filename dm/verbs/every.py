"""All verbs, in the order in which `dmctl --help` lists them."""

from __future__ import annotations

from typing import Final

from dm.verbs import (
    binlog,
    config,
    cutover,
    errands,
    objects,
    program,
    sources,
    tasks,
    tokens,
    validation,
)
from dm.verbs.declaration import Verb, VerbGroup

_SUBJECTS: Final = (program, errands, cutover, objects, tasks, sources, binlog, config, tokens, validation)

# As `dmctl --help` shows them; a verb that is not among them comes after these.
_LISTED: Final = (
    "encrypt", "cut-over", "diff", "flashback", "reload-table", "replay", "update-task", "objects", "start-relay",
    "stop-relay", "pause-relay", "resume-relay", "purge-relay", "check-task", "start-task", "stop-task", "pause-task",
    "resume-task", "query-status", "wait", "shutdown", "demo", "logs", "completion",
)  # fmt: skip


def _place(verb: type[Verb]) -> int:
    return _LISTED.index(verb.name) if verb.name in _LISTED else len(_LISTED)


VERBS: Final[tuple[type[Verb], ...]] = tuple(
    sorted(
        (
            found
            for subject in _SUBJECTS
            for found in vars(subject).values()
            if isinstance(found, type) and issubclass(found, Verb) and found.__module__ == subject.__name__
            if found.name or found.path
        ),
        key=_place,
    )
)

GROUPS: Final[tuple[VerbGroup, ...]] = tuple(group for subject in _SUBJECTS for group in getattr(subject, "GROUPS", ()))
