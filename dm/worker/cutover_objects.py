"""What is no table, at a cut-over.

Views, routines, accounts and privileges are at the target before it. Their lack is in the way, unless a person waives
it by name. Triggers and events come with the switch: rows that the task has brought have their effect already. They are
created when the task rests and nothing is undone any more, before applications move. Events begin to run after that.
All of it can be done again.

Whether the target takes triggers and events is tried beforehand in a scratch schema: at the switch applications wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.tools.cutover.findings import Finding
from dm.tools.cutover.machine import CutOverState
from dm.tools.objects.accounts.survey import ComparedAccount
from dm.tools.objects.adapted import Definers
from dm.tools.objects.stored import ACTING
from dm.tools.objects.survey import ComparedObject
from dm.tools.objects.task_objects import TaskObjects, kind_of, title

_UNREAD = "account *"  # a look that was not possible says nothing of a lack
_WHERE = "objects"

OpenObjects = Callable[[Sequence[SubtaskConfig], Definers], TaskObjects]


def findings(
    task: str, subtasks: Sequence[SubtaskConfig], opened: OpenObjects, waived: Collection[str], definers: Sequence[str]
) -> tuple[list[Finding], bool]:
    """What the target lacks and what is different, and whether something comes with the switch; raises DMError."""
    objects = opened(subtasks, Definers.of(definers))
    try:
        untried = objects.try_acting()
        found = [Finding(_WHERE, untried, "", stops=False)] if untried else []
        found += _lacking(task, objects, waived)
        return found, _comes(objects)
    finally:
        objects.close()


def _lacking(task: str, objects: TaskObjects, waived: Collection[str]) -> list[Finding]:
    found, named = list[Finding](), set[str]()
    known: list[ComparedObject | ComparedAccount] = [*objects.compared, *objects.accounts]
    for each in known:
        name, why = title(each), "; ".join(each.why)
        if each.state == "missing":
            named.add(name)
        if each.state == "missing" and kind_of(each) not in ACTING:
            says = f"the target lacks {name}" + (f": {why}" if why else "")
            mend = f'dmctl objects {task} --apply; or --waive "{name}"'
            found.append(Finding(_WHERE, says, mend, stops=name not in waived))
        elif each.state == "refused":
            named.add(name)
            stops = name not in waived and name != _UNREAD
            found.append(Finding(_WHERE, f"the target does not get {name}: {why}", f'--waive "{name}"', stops=stops))
        elif each.state == "different":
            found.append(Finding(_WHERE, f"{name} is different at the target: {why}", "", stops=False))
    found += [Finding(_WHERE, remark, "", stops=False) for remark in objects.remarks]
    return found + [
        Finding(_WHERE, f'--waive "{each}" names nothing that the target lacks', f"dmctl objects {task}", stops=False)
        for each in sorted(set(waived) - named)
    ]


def _comes(objects: TaskObjects) -> bool:
    return any(
        each.name.kind in ACTING
        and each.wanted is not None
        and (each.there is None or (each.wanted.source.status == "ENABLED" != each.there.status))
        for each in objects.compared
    )


class ObjectsOfSwitch:
    """Triggers and events of a cut-over that is at its switch."""

    def __init__(self, task: str, subtasks: Sequence[SubtaskConfig], opened: OpenObjects, found: CutOverState) -> None:
        self._task, self._waived = task, frozenset(found.waived)
        self._opened, self._subtasks, self._definers = opened, subtasks, Definers.of(found.definers)

    def create(self) -> None:
        """Create what is missing of them; raises DMError where one is refused that is not waived."""
        self._do(lambda objects: objects.apply(ACTING))

    def enable(self) -> None:
        """Have events run that run at the source; raises DMError where the target refuses one."""
        self._do(lambda objects: objects.enable_events())

    def _do(self, change: Callable[[TaskObjects], Sequence[ComparedObject]]) -> None:
        objects = self._opened(self._subtasks, self._definers)
        try:
            change(objects)
            acting = [each for each in objects.compared if each.name.kind in ACTING]
        finally:
            objects.close()
        refused = {title(each): "; ".join(each.why) for each in acting if each.state in ("missing", "refused")}
        left = [f"{name}: {why}" for name, why in refused.items() if name not in self._waived]
        if left:
            raise DMError("cut-over-objects", task=self._task, objects="; ".join(left))
