"""The verbs that the page offers, each after a question, each with the line of `dmctl` that does the same.

A form does what a request to the API does: the same declaration of the verb, the same permission, the same lines in the
audit log, the same method that does the work. Nothing else of this package changes anything.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import Request

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.binlog import SkipEvent
from dm.verbs.config import ChangeWorker
from dm.verbs.declaration import Permission, Verb
from dm.verbs.errands import Diff
from dm.verbs.pace import Pace
from dm.verbs.relays import PauseRelay, ResumeRelay, StartRelay, StopRelay
from dm.verbs.tasks import PauseTask, ResumeTask, StopTask
from dm.verbs.validation import StartValidation, StopValidation
from dm.worker.access import demanding
from dm.worker.audit import AuditLog
from dm.worker.page.sessions import Notice
from dm.worker.work import Answer, Work

Values = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class FormField:
    """What a person fills in; without choices any text."""

    name: str
    label: str
    default: str
    choices: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Form:
    """A verb on the page."""

    label: str  # of the link that leads to the question
    verb: type[Verb]
    make: Callable[[Values], Verb]
    words: Callable[[Values], Sequence[str]]  # after the verb's name in the line of dmctl
    effect: str  # what the question says
    fields: Sequence[FormField] = ()

    @property
    def permission(self) -> Permission:
        """What it needs."""
        return self.verb.permission

    def command(self, values: Values) -> str:
        """The line of `dmctl`."""
        return f"dmctl {self.verb.name} {shlex.join(self.words(values))}"


def _of_task(label: str, verb: type[Verb], effect: str, **fixed: object) -> Form:
    return Form(
        label,
        verb,
        lambda values: verb(task=values["task"], sources=_sources(values), **fixed),
        lambda values: [values["task"], *_source_words(values)],
        effect,
    )


def _of_relay(label: str, verb: type[Verb], effect: str) -> Form:
    return Form(
        label,
        verb,
        lambda values: verb(source=values["source"]),
        lambda values: ["-s", values["source"]],
        effect,
    )


def _sources(values: Values) -> tuple[str, ...]:
    return (values["source"],) if values.get("source") else ()


def _source_words(values: Values) -> list[str]:
    return ["-s", values["source"]] if values.get("source") else []


def _limits(values: Values) -> tuple[str, ...]:
    return (values["limit"],) if values.get("limit") else ()


TASK_FORMS: Final[Mapping[str, Form]] = {
    "pause": _of_task("Pause", PauseTask, "It comes to rest, and nothing resumes it but a person."),
    "resume": _of_task("Resume", ResumeTask, "It goes on from its stored progress."),
    "skip": _of_task(
        "Skip the failing statement",
        SkipEvent,
        "The target executes nothing for the statement at which the task has failed. What the statement does to the"
        " source's table is still followed. Then resume the task.",
    ),
    "stop": _of_task("Stop", StopTask, "dm-worker forgets the task. Its progress stays at the target."),
    "compare": Form(
        "Compare",
        Diff,
        lambda values: Diff(task=values["task"]),
        lambda values: [values["task"]],
        "All tables are read at the source and at the target, in the background. The list of tables shows the outcome.",
    ),
    "pace": Form(
        "Change the pace",
        Pace,
        lambda values: Pace(task=values["task"], limits=_limits(values), none=not _limits(values)),
        lambda values: [values["task"], *(["--limit", values["limit"]] if values.get("limit") else ["--none"])],
        "It holds within a second, and until it is changed again. Without a limit the task is as fast as it can.",
        (FormField("limit", "Limit", "rows-per-second=1000"),),
    ),
    "validate": _of_task("Start validator", StartValidation, "Rows that are applied from now on are compared."),
    "stop-validator": _of_task("Stop validator", StopValidation, "No rows are compared until it is started again."),
}

RELAY_FORMS: Final[Mapping[str, Form]] = {
    "start": _of_relay("Start relay", StartRelay, "The source's binlog is stored on this host from now on."),
    "stop": _of_relay("Stop relay", StopRelay, "Nothing more is stored; files stay, and tasks read from the source."),
    "pause": _of_relay("Pause relay", PauseRelay, "It rests until a person resumes it; tasks that read it wait."),
    "resume": _of_relay("Resume relay", ResumeRelay, "It goes on where it was."),
}

SETTINGS_FORM: Final = Form(
    "Change the log level",
    ChangeWorker,
    lambda values: ChangeWorker(log_level=values["log_level"]),
    lambda values: ["--log-level", values["log_level"]],
    "The level holds at once, for all processes, and for later starts.",
    (FormField("log_level", "Log level", "info", ("debug", "info", "warn", "error")),),
)


class Deeds:
    """Carries out what a form asks for."""

    def __init__(self, work: Mapping[type[Verb], Work], audit: AuditLog) -> None:
        self._work = work
        self._audit = audit

    def do(self, request: Request, form: Form, values: Values) -> Notice:
        """What came of it; raises DMError where the permission is missing."""
        self._audit.asked(request, form.verb.name, form.permission)
        status, code = 200, None
        try:
            asked = form.make(values)
            demanding(form.permission)(request)
            demanding(asked.needed())(request)
            answer = self._work[form.verb](asked)
            return _told(form.command(values), answer)
        except DMError as error:
            report = error.report()
            code = report["ErrCode"]
            status = 403 if error.name == "permission-missing" else 400
            if status == 403:
                raise
            causes = [report["RawCause"], report["Workaround"] and f"What to do: {report['Workaround']}"]
            text = f"{form.command(values)}: error {code}: {report['Message']}"
            return Notice(text, done=False, details=tuple(filter(None, causes)))
        except Exception:
            status = 500
            raise
        finally:
            self._audit.answered(request.scope, status, code)


def _told(command: str, answer: Answer) -> Notice:
    """What a verb's answer says of each source."""
    lines = cast("list[dict[str, Any]]", answer.get("sources") or [])
    failed = [each for each in lines if not each.get("result", True)]
    details = [_detail(each) for each in lines]
    details += [f"warning: {warning}" for warning in cast("list[JSON]", answer.get("warnings") or [])]
    if "limits" in answer:
        details.append(f"limits: {answer['limits'] or 'none'}")
    return Notice(
        f"{command}: {'not done everywhere' if failed else 'done'}.", not failed, tuple(filter(None, details))
    )


def _detail(line: Mapping[str, Any]) -> str:
    told = [str(line[name]) for name in ("stage", "msg", "detail") if line.get(name)]
    return f"{line['source']}: {', '.join(told)}" if told else ""
