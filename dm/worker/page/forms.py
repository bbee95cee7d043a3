"""The verbs that the page offers, each after a question, each with the line of `dmctl` that does the same.

A form does what a request to the API does: the same declaration of the verb, the same permission, the same lines in the
audit log, the same method that does the work. Nothing else of this package changes anything.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from starlette.requests import Request

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.binlog import SkipEvent
from dm.verbs.config import ChangeWorker
from dm.verbs.cutover import (
    MAX_LAG,
    PROVES,
    TIMEOUT,
    AbortCutOver,
    BeginCutOver,
    CheckCutOver,
    CompleteCutOver,
    CutOverTask,
)
from dm.verbs.declaration import Permission, Verb
from dm.verbs.errands import Diff
from dm.verbs.pace import Pace
from dm.verbs.relays import PauseRelay, ResumeRelay, StartRelay, StopRelay
from dm.verbs.shard_ddl_lock import Unlock
from dm.verbs.tasks import PauseTask, ResumeTask, StopTask
from dm.verbs.updates import ReloadTable
from dm.verbs.validation import StartValidation, StopValidation
from dm.worker.access import demanding
from dm.worker.audit import AuditLog
from dm.worker.page.sessions import Notice
from dm.worker.verb_work import Answer, Work

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
    composed: type[Verb] | None = None  # the verb of dmctl, where that makes several requests and this is one of them
    begins: bool = False  # the work goes on after the answer

    @property
    def permission(self) -> Permission:
        """What it needs."""
        return self.verb.permission

    def filled(self, values: Values) -> Values:
        """The values, with its own for what nobody has filled in."""
        return {**{field.name: field.default for field in self.fields}, **values}

    def command(self, values: Values) -> str:
        """The line of `dmctl`."""
        return f"dmctl {(self.composed or self.verb).name} {shlex.join(self.words(self.filled(values)))}"


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
        lambda values: verb(source=values["source"], sources=(values["source"],)),
        lambda values: ["-s", values["source"]],
        effect,
    )


def _sources(values: Values) -> tuple[str, ...]:
    return (values["source"],) if values.get("source") else ()


def _source_words(values: Values) -> list[str]:
    return ["-s", values["source"]] if values.get("source") else []


def _limits(values: Values) -> tuple[str, ...]:
    return (values["limit"],) if values.get("limit") else ()


def _reload_words(values: Values) -> list[str]:
    recreate = ["--recreate"] if values["recreate"] == "yes" else []
    return [values["task"], values["database"], values["table"], *_source_words(values), *recreate]


def _unlock_words(values: Values) -> list[str]:
    return [values["lock"], *_source_words(values), "--action", values["action"]]


# A cut-over: `dmctl cut-over` asks, checks and begins; each of these is one request of it, with its question.

_PROVE: Final = FormField("prove", "Rows that are compared without writes", "full", PROVES)
_MAX_LAG: Final = FormField("max_lag", "Seconds that the task may be behind when it begins", f"{MAX_LAG:g}")
_TIMEOUT: Final = FormField("timeout", "Seconds without writes, then it is undone", f"{TIMEOUT:g}")
_LEAST: Final = {"max_lag": 0.0, "timeout": 1.0}
_HOOK: Final = FormField("hook", "Program that moves the applications, its path on dm-worker's host", "")
_WAY_BACK: Final = FormField("way_back", "Make a task for the way back", "yes", ("yes", "no"))
# Names that may be given more than once, each as the findings have it.
_NAMED: Final = ("waive", "acts_twice")
_WAIVE: Final = FormField("waive", "Objects that the target may lack, separated by commas", "")
_ACTS_TWICE: Final = FormField("acts_twice", "Triggers and events that may act twice, separated by commas", "")


def _cut_over(label: str, verb: type[Verb], effect: str, fields: Sequence[FormField], *flags: str) -> Form:
    """A request of `dmctl cut-over`; its fields are options of the same name."""
    fixed = {"back": True} if flags == ("--back",) else {}
    names = {field.name for field in fields}

    def make(values: Values) -> Verb:
        given: dict[str, object] = {name: values[name] for name in names & {"prove"}}
        given |= {name: _seconds(name, values[name], least) for name, least in _LEAST.items() if name in names}
        if "hook" in names:
            given["hook"] = _absolute(values["hook"])
        given |= {name: _listed(values[name]) for name in names.intersection(_NAMED)}
        if "way_back" in names:
            given["way_back"] = values["way_back"] == "yes"
        return verb(task=values["task"], **fixed, **given)

    def words(values: Values) -> list[str]:
        found = [values["task"], *flags]
        for name in ("prove", "max_lag", "timeout", "hook"):
            if name in names and values[name]:
                found += [f"--{name.replace('_', '-')}", values[name]]
        found += ["--no-way-back"] if "way_back" in names and values["way_back"] != "yes" else []
        for name in _NAMED:
            listed = _listed(values[name]) if name in names else ()
            found += [word for each in listed for word in (f"--{name.replace('_', '-')}", each)]
        return found

    return Form(label, verb, make, words, effect, fields, composed=CutOverTask)


def _listed(text: str) -> tuple[str, ...]:
    return tuple(filter(None, (each.strip() for each in text.split(","))))


def _seconds(name: str, text: str, least: float) -> float:
    """What `dmctl` takes for the option of this name, too."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not least <= found < math.inf:
        problem = f"{name.replace('_', '-')}: {text!r} is no number from {least:g} on"
        raise DMError("usage", problem=problem, hint="seconds, as 600")
    return found


def _absolute(hook: str) -> str:
    if hook and not hook.startswith("/"):
        raise DMError("usage", problem=f"the hook {hook!r} is no absolute path", hint="/opt/dm/hook.sh")
    return hook


TASK_FORMS: Final[Mapping[str, Form]] = {
    "pause": _of_task("Pause", PauseTask, "It comes to rest, and nothing resumes it but a person."),
    "resume": _of_task("Resume", ResumeTask, "It goes on from its stored progress."),
    "skip": _of_task(
        "Skip the failing statement",
        SkipEvent,
        "The target executes nothing for the statement at which the task has failed. What the statement does to the"
        " source's table is still followed. Then the task goes on.",
    ),
    "stop": _of_task("Stop", StopTask, "dm-worker forgets the task. Its progress stays at the target."),
    "compare": Form(
        "Compare",
        Diff,
        lambda values: Diff(task=values["task"]),
        lambda values: [values["task"]],
        "All tables are read at the source and at the target, in the background. The list of tables shows the outcome.",
        begins=True,
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
    "reload": Form(
        "Load a table again",
        ReloadTable,
        lambda values: ReloadTable(
            task=values["task"],
            database=values["database"],
            table=values["table"],
            source=values.get("source") or None,
            recreate=values["recreate"] == "yes",
        ),
        _reload_words,
        "The table at the target is emptied and loaded again, while the task's other tables go on.",
        (
            FormField("database", "Schema at the source", ""),
            FormField("table", "Table at the source", ""),
            FormField("source", "Source, where several have such a table", ""),
            FormField(
                "recreate", "Drop the target's table first, and make it as the source has it", "no", ("no", "yes")
            ),
        ),
        begins=True,
    ),
    "cancel-reload": Form(
        "Take a reload back",
        ReloadTable,
        lambda values: ReloadTable(task=values["task"], cancel=True),
        lambda values: [values["task"], "--cancel"],
        "Tables that are still to be emptied go on with the rows that they have.",
    ),
    "unlock": Form(
        "Wait no more for missing shards",
        Unlock,
        lambda values: Unlock(
            lock=values["lock"], sources=_sources(values), action="skip" if values["action"] == "skip" else "exec"
        ),
        _unlock_words,
        "The DDL no longer waits for the shards that are missing. What they have is still merged when they come.",
        (
            FormField("lock", "Lock", ""),
            FormField("source", "Only the shards of this source", ""),
            FormField(
                "action", "The DDL, once all others are there: execute it, or leave it out", "exec", ("exec", "skip")
            ),
        ),
    ),
    "check-cut-over": _cut_over(
        "Check a cut-over",
        CheckCutOver,
        "It tells what is in the way of moving the applications to the target. Nothing is changed.",
        (_PROVE, _MAX_LAG, _HOOK, _WAY_BACK, _WAIVE, _ACTS_TWICE),
        "--dry-run",
    ),
    "cut-over": _cut_over(
        "Cut over",
        BeginCutOver,
        "The writes at the sources are stopped, and applications belong to the target. If anything is in the way, it"
        " begins nothing and says what.",
        (_PROVE, _MAX_LAG, _TIMEOUT, _HOOK, _WAY_BACK, _WAIVE, _ACTS_TWICE),
    ),
    "abort-cut-over": _cut_over(
        "Undo the cut-over",
        AbortCutOver,
        "The sources take writes again, and the task goes on. It can be done before the switch.",
        (_HOOK,),
        "--abort",
    ),
    "return": _cut_over(
        "Return to the source",
        BeginCutOver,
        "The writes at the target are stopped, and applications belong to the source again.",
        (_PROVE, _MAX_LAG, _TIMEOUT, _HOOK, _WAIVE, _ACTS_TWICE),
        "--back",
    ),
    "complete-cut-over": _cut_over(
        "End the cut-over",
        CompleteCutOver,
        "The task is stopped. After it there is no way back.",
        (),
        "--complete",
    ),
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
        self._audit.asked(request, form.verb.name or form.verb.__name__, form.permission)
        status, code = 200, None
        try:
            demanding(form.permission)(request)
            asked = form.make(form.filled(values))
            demanding(asked.needed())(request)
            asked.demand_consistent()
            answer = self._work[form.verb](asked)
            return _told(form.command(values), answer, begun=form.begins)
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


def _told(command: str, answer: Answer, *, begun: bool) -> Notice:
    """What a verb's answer says, of each source or as a whole."""
    lines = cast("list[dict[str, Any]]", answer.get("sources") or [])
    failed = answer.get("ready") is False or any(not each.get("result", True) for each in lines)
    details = [_detail(each) for each in lines]
    details += [f"warning: {warning}" for warning in cast("list[JSON]", answer.get("warnings") or [])]
    details += [_finding(each) for each in cast("list[dict[str, Any]]", answer.get("findings") or [])]
    if "limits" in answer:
        details.append(f"limits: {answer['limits'] or 'none'}")
    if answer.get("tables"):
        details.append(", ".join(str(each) for each in cast("list[JSON]", answer["tables"])))
    details += [str(answer[name]) for name in ("msg", "state", "problem") if answer.get(name)]
    if "ready" in answer:
        return Notice(f"{command}: {'not ready' if failed else 'ready'}.", not failed, tuple(filter(None, details)))
    what = "begun" if begun or answer.get("driven") else "done"  # a cut-over that is driven goes on
    said = f"not {what} everywhere" if failed else what
    return Notice(f"{command}: {said}.", not failed, tuple(filter(None, details)))


def _finding(found: Mapping[str, Any]) -> str:
    """What is in the way of a cut-over, and what mends it."""
    told = f"{found['where']}: {found['says']}{'' if found['stops'] else ' (does not stop a cut-over)'}"
    return f"{told}. Mend it: {found['mend']}" if found["mend"] else told


def _detail(line: Mapping[str, Any]) -> str:
    told = [str(line[name]) for name in ("stage", "msg", "detail") if line.get(name)]
    return f"{line['source']}: {', '.join(told)}" if told else ""
