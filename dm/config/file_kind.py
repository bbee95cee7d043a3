"""Source files and task files, told apart: one that was given in place of the other is one problem, not twenty."""

from __future__ import annotations

from typing import Final, Literal

from dm.config.document import YamlMap
from dm.config.problem import Mark, Report

Kind = Literal["source", "task"]

_KEYS: Final[dict[Kind, frozenset[str]]] = {
    "source": frozenset({"source-id", "from"}),
    "task": frozenset({"task-mode", "mysql-instances", "target-database"}),
}
_VERBS: Final[dict[Kind, str]] = {
    "source": "`dmctl operate-source create`",
    "task": "`dmctl check-task` and `dmctl start-task`",
}


def is_other(tree: YamlMap, wanted: Kind, report: Report) -> bool:
    """Whether the file is clearly of the other kind; that is reported."""
    other: Kind = "task" if wanted == "source" else "source"
    if _KEYS[wanted] & tree.keys() or len(_KEYS[other] & tree.keys()) < 2:
        return False
    report.add(
        "config-other-file", Mark(1, 1), "", which=other, expected=f"a {wanted} file",
        suggestion=f"{other} files are for {_VERBS[other]}",
    )  # fmt: skip
    return True
