"""Verbs of what sources and tasks that are known no more have left."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import FILE, AnswerShape, ConfigFile, Verb, VerbGroup, argument, option, shape

_LEFT: Final = AnswerShape(
    "LeftLine",
    {"name": str, "where": str, "changed": str},
    may={"files": int, "bytes": str, "tables": int, "sources": list[str]},
)
FORGOTTEN: Final = shape("ForgottenListed", forgotten=[_LEFT], problems=list[str])
FORGOTTEN_REMOVED: Final = shape("ForgottenRemoved", removed=list[dict[str, str]])

GROUPS = (VerbGroup("forgotten", "List and remove what forgotten tasks have left."),)

TargetsOf = Annotated[
    tuple[ConfigFile, ...],
    option(
        "--file -f",
        "look at this task file's target instead of those of all tasks; may be repeated",
        FILE,
    ),
]


class ListForgotten(Verb, name="forgotten list", route="POST forgotten", answer=FORGOTTEN):
    """List relay files, work directories, and progress at targets that no source or task here is known for."""

    files: TargetsOf = ()


class RemoveForgotten(Verb, name="forgotten remove", route="POST forgotten/remove", answer=FORGOTTEN_REMOVED):
    """Remove some of it. Another dm-worker may know a task that this one does not: look at what you name."""

    names: Annotated[tuple[str, ...], argument("as `dmctl forgotten list` has them: relay/mysql-01, progress/shop")]
    files: TargetsOf = ()
