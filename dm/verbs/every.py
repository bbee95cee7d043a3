"""All verbs, in the order in which `dmctl --help` lists them: those of the files of this package."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Final

from dm.verbs.declaration import Verb, VerbGroup

_OTHERS: Final = frozenset({"__init__", "declaration", "every"})

SUBJECTS: Final = tuple(sorted(path.stem for path in Path(__file__).parent.glob("*.py") if path.stem not in _OTHERS))
"""The files of declarations. The work and the text of a subject's verbs have the same name in their folders."""

# As `dmctl --help` shows them; what is not among them comes after these.
_LISTED: Final = (
    "encrypt", "cut-over", "diff", "flashback", "heal", "reload-table", "replay", "update-task", "table", "objects",
    "show-conflicts", "clear-conflicts", "start-relay",
    "stop-relay", "pause-relay", "resume-relay", "purge-relay", "check-task", "start-task", "stop-task", "pause-task",
    "resume-task", "query-status", "timeline", "wait", "shutdown", "demo", "logs", "support-bundle", "completion",
    "list-member", "transfer-source", "offline-member",
    "cluster", "forgotten", "shard-ddl-lock", "operate-source",
    "binlog", "binlog-schema", "config", "token", "validation",
)  # fmt: skip


def _place(found: type[Verb] | VerbGroup) -> int:
    return _LISTED.index(found.name) if found.name in _LISTED else len(_LISTED)


_MODULES: Final = [import_module(f"dm.verbs.{subject}") for subject in SUBJECTS]

VERBS: Final[tuple[type[Verb], ...]] = tuple(
    sorted(
        (
            found
            for module in _MODULES
            for found in vars(module).values()
            if isinstance(found, type) and issubclass(found, Verb) and found.__module__ == module.__name__
            if found.name or found.path
        ),
        key=_place,
    )
)

GROUPS: Final[tuple[VerbGroup, ...]] = tuple(
    sorted((group for module in _MODULES for group in getattr(module, "GROUPS", ())), key=_place)
)
