"""Verbs of a cut-over: applications move from the sources of a task to its target."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import CHANGES, OPERATES, READS, Record, Task, Verb, argument, option, shape

CUT_OVER_CHECKED: Final = shape(
    "CutOverChecked", task=str, ready=bool, findings=list[Record], files=list[dict[str, str]]
)
CUT_OVER: Final = shape("CutOverTold", task=str, state=str, driven=bool, problem=str, cutOver=Record, left=list[str])

PROVES = ("full", "recent", "none")
TIMEOUT = 600.0
MAX_LAG = 10.0

Prove = Annotated[
    str,
    option(
        "--prove",
        "full: all rows are compared while nobody writes; recent: before that, and then those written since; none",
    ),
]
MaxLag = Annotated[float, option("--max-lag", "seconds that the task may be behind when it begins", least=0)]
Timeout = Annotated[float, option("--timeout", "seconds without writes; after them it is aborted", least=1)]
Hook = Annotated[str, option("--hook", "a program that stops the writes and moves the applications")]


Waive = Annotated[
    tuple[str, ...],
    option(
        "--waive",
        "an object that the target may lack, as the finding names it; may be repeated",
    ),
]
ActsTwice = Annotated[
    tuple[str, ...],
    option(
        "--acts-twice",
        "a trigger or event that may act on what comes back, too, as the finding names it; may be repeated",
    ),
]
Definer = Annotated[
    tuple[str, ...], option("--definer", "what becomes of DEFINER, as for `dmctl objects`; may be repeated")
]


class CutOverTask(Verb, name="cut-over", permission=CHANGES):
    """Move applications from the sources to the target. Asks before it begins.

    Exit status 1 if the task is not ready, or the cut-over was aborted, or its hook failed.
    """

    task: Task
    dry_run: Annotated[bool, option("--dry-run", "only tell what is in the way; changes nothing")] = False
    prove: Prove = "full"
    max_lag: MaxLag = MAX_LAG
    timeout: Timeout = TIMEOUT
    hook: Hook = ""
    no_way_back: Annotated[bool, option("--no-way-back", "make no task that brings changes back to the source")] = False
    waive: Waive = ()
    acts_twice: ActsTwice = ()
    definers: Definer = ()
    yes: Annotated[bool, option("--yes -y", "do it without asking")] = False
    status: Annotated[bool, option("--status", "tell how far it is")] = False
    abort: Annotated[bool, option("--abort", "before the switch: undo it, the sources take writes again")] = False
    back: Annotated[bool, option("--back", "after the switch: move applications back to the source")] = False
    complete: Annotated[bool, option("--complete", "after the switch: stop the task, and end the cut-over")] = False

    def demand_consistent(self) -> None:
        """Raise DMError unless one thing is asked for."""
        hint = "dmctl cut-over <task> --status"
        if sum((self.dry_run, self.status, self.abort, self.complete)) > 1:
            problem = "--dry-run, --status, --abort and --complete are four different things"
            raise DMError("usage", problem=problem, hint=hint)
        if self.back and (self.status or self.abort or self.complete or self.no_way_back):
            problem = "--back goes with none of --status, --abort, --complete and --no-way-back"
            raise DMError("usage", problem=problem, hint=hint)
        demand_prove(self.prove)


def demand_prove(prove: str) -> None:
    """Raise DMError for a word that says nothing."""
    if prove not in PROVES:
        hint = "dmctl cut-over <task> --prove full"
        raise DMError("usage", problem=f"--prove {prove!r} is not one of {', '.join(PROVES)}", hint=hint)


class CheckCutOver(Verb, route="POST tasks/{task}/cut-over/check", permission=OPERATES, answer=CUT_OVER_CHECKED):
    """Tell what is in the way of a cut-over; changes nothing."""

    task: Annotated[str, argument("the task's name")]
    prove: str = "full"
    max_lag: float = MAX_LAG
    hook: str = ""
    way_back: bool = True
    back: bool = False
    waive: tuple[str, ...] = ()
    acts_twice: tuple[str, ...] = ()
    definers: tuple[str, ...] = ()


class BeginCutOver(Verb, route="POST tasks/{task}/cut-over", permission=CHANGES, answer=CUT_OVER):
    """Begin a cut-over, or go on with one whose hook failed at the switch."""

    task: Annotated[str, argument("the task's name")]
    prove: str = "full"
    max_lag: float = MAX_LAG
    timeout: float = TIMEOUT
    hook: str = ""
    way_back: bool = True
    back: bool = False
    waive: tuple[str, ...] = ()
    acts_twice: tuple[str, ...] = ()
    definers: tuple[str, ...] = ()


class CutOverStatus(Verb, route="GET tasks/{task}/cut-over", permission=READS, answer=CUT_OVER):
    """Tell how far a cut-over is."""

    task: Annotated[str, argument("the task's name")]


class AbortCutOver(Verb, route="POST tasks/{task}/cut-over/abort", permission=CHANGES, answer=CUT_OVER):
    """Undo a cut-over before its switch, or go on with one whose hook failed at that."""

    task: Annotated[str, argument("the task's name")]
    hook: str = ""


class CompleteCutOver(Verb, route="POST tasks/{task}/cut-over/complete", permission=CHANGES, answer=CUT_OVER):
    """End a cut-over after its switch: the task is stopped."""

    task: Annotated[str, argument("the task's name")]
