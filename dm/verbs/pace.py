"""The verb of a task's pace."""

from __future__ import annotations

from typing import Annotated, Final

from dm.errors import DMError
from dm.verbs.declaration import CHANGES, EACH_OWNER, OPERATES, READS, Permission, Task, Verb, option, shape

PACE: Final = shape("PaceTold", task=str, limits=dict[str, str], fromFile=bool, holds=str, heldShare=float)
_REACHING: Final = ("query", "replicas")
"""Keys whose values are run, or logged in to, with the target's account."""


class Pace(Verb, name="pace", route="POST tasks/{task}/pace", permission=OPERATES, answer=PACE, division=EACH_OWNER):
    """Show how fast a task may be, or change it while it runs. Takes effect within a second."""

    task: Task
    limits: Annotated[
        tuple[str, ...],
        option("--limit -l", "KEY=VALUE with a key of `pace`, as rows-per-second=1000; without a value: no such limit"),
    ] = ()
    none: Annotated[bool, option("--none", "no limit at all")] = False
    from_file: Annotated[bool, option("--from-file", "as the task file says, from now on")] = False

    def needed(self) -> Permission:
        """To look is to read; what reaches servers with the task's account changes more than the pace."""
        if any(each.partition("=")[0].strip() in _REACHING for each in self.limits):
            return CHANGES
        return OPERATES if self.limits or self.none or self.from_file else READS

    def demand_consistent(self) -> None:
        """Raise DMError where the options contradict each other."""
        if sum(map(bool, (self.limits, self.none, self.from_file))) > 1:
            problem = "--limit, --none and --from-file exclude each other"
            raise DMError("usage", problem=problem, hint="give one of them")
