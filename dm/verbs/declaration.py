"""A verb, declared once.

A declaration is a class. Its keywords say the name at the command line, the route, the permission, the answer, and
which of several hosts do the work; its docstring is the help; its annotated attributes are the parameters. All that
follows from that is made from it:

- the arguments and options of `dmctl` (dm/cli/commands.py);
- the request that `dmctl` sends (`Verb.request`);
- the HTTP route, the model of its body and its OpenAPI description (dm/worker/api.py);
- the way to the hosts that do it (dm/worker/routing.py).

By hand remain the work (methods marked with `does`) and the text for people (functions marked with `shows` or `runs`).
A subject has one name in three folders: dm/verbs, dm/worker/verbs and dm/cli/verbs. A new verb is a class, a method and
a function in these three files; a new subject is three files. Nothing else lists them. The daemon and the command line
share nothing but declarations.

`dmctl --help` imports all declarations, so an unused one costs next to nothing: annotations stay text until a verb is
called, and no code is generated for a class, as it would be for a dataclass.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Annotated, Any, ClassVar, Final, Self, dataclass_transform, get_args, get_origin, get_type_hints
from urllib.parse import quote, urlencode

from dm.errors import DMError

MISSING: Final = object()  # the default of a parameter that must be given
_PLACE: Final = re.compile(r"\{(\w+)\}")


class Permission(StrEnum):
    """What a caller must be allowed to do."""

    READS = "read"
    OPERATES = "operate"  # pauses, resumes, compares what is configured already
    CHANGES = "change"  # brings files, decides what becomes of rows


class Division(Enum):
    """Which members do a verb's work, where several own sources of its task (dm/worker/routing.py)."""

    ONE_OWNER = "the owner of all its sources, or of those that are named; else it is refused"
    ALL_SOURCES = "the owner of all the task's sources, also where some are named; else it is refused"
    ONE_SOURCE = "the owner of the one source that has to be named"
    EACH_ITS_SOURCES = "each owner, for its sources"
    EACH_OWNER = "every owner"
    ASKED = "the member that is asked"


class WordForm(Enum):
    """How a word of the command line becomes a value."""

    AS_IT_IS = "as it is"
    TASK = "a task's name, or its file"
    FILE = "a source or task file"
    DIRECTORY = "a directory of the caller; empty for none"


READS, OPERATES, CHANGES = Permission
ONE_OWNER, ALL_SOURCES, ONE_SOURCE, EACH_ITS_SOURCES, EACH_OWNER, ASKED = Division
AS_IT_IS, TASK, FILE, DIRECTORY = WordForm


@dataclasses.dataclass(frozen=True, slots=True)
class Word:
    """How a parameter is given at the command line: known by its place, or with flags."""

    help: str
    reading: WordForm = AS_IT_IS
    flags: tuple[str, ...] = ()
    least: int | None = None
    sent: bool = True  # whether it is part of the request
    name: str = ""  # of an argument, where the request has another one
    required: bool = False  # though a request may do without


argument = Word


def option(flags: str, help: str, reading: WordForm = AS_IT_IS, *, least: int | None = None, sent: bool = True) -> Word:
    """A parameter with flags, as `--source -s`."""
    return Word(help, reading, tuple(flags.split()), least, sent)


@dataclasses.dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of a verb."""

    name: str
    type: Any
    word: Word | None  # None: only in requests
    default: Any

    @property
    def sent(self) -> bool:
        """Whether requests have it."""
        return self.word is None or self.word.sent


@dataclasses.dataclass(frozen=True, slots=True)
class VerbGroup:
    """Verbs that share their first word."""

    name: str
    help: str
    default: str = ""  # the verb that is meant when none is named


# Answers, in DM's JSON. Each has `result` and `msg`. A verb that can't be done answers with `result: false`, the
# error's text as `msg`, and its report as `error`.

Record = dict[str, Any]  # an object that DM's documentation tells: a status, a result of a check, an error


@dataclass(frozen=True, slots=True)
class AnswerShape:
    """An object of an answer: its keys with their types; `may` are left out at times, `more` are its unit's."""

    name: str
    keys: dict[str, Any]
    may: dict[str, Any] = field(default_factory=dict)
    more: bool = False


def shape(name: str, *, may: dict[str, Any] | None = None, more: bool = False, **keys: Any) -> AnswerShape:
    return AnswerShape(name, {"result": bool, "msg": str, **keys}, may or {}, more)


def line(name: str, *, may: dict[str, Any] | None = None, more: bool = False, **keys: Any) -> AnswerShape:
    """What became of one source."""
    return shape(name, may=may, more=more, source=str, **keys)


DONE: Final = shape("Done")


@dataclass_transform(kw_only_default=True, frozen_default=True)
class Verb:
    """A call of a verb: its parameters are attributes.

    Keywords of a subclass: `name` at the command line (without one the verb is a request only), `route` as
    `POST tasks/{task}/pause` (without one `dmctl` composes it from others), `permission`, `answer`, `division`.
    """

    name: ClassVar[str] = ""
    method: ClassVar[str] = ""
    path: ClassVar[str] = ""
    permission: ClassVar[Permission] = CHANGES
    division: ClassVar[Division] = ONE_OWNER
    changing: ClassVar[tuple[str, ...]] = ()  # parameters that need the permission `change`, where they are given
    answer: ClassVar[AnswerShape] = DONE
    asks_daemon: ClassVar[bool] = True
    words_as_they_are: ClassVar[bool] = False  # it reads its words itself, also --help

    def __init_subclass__(
        cls,
        *,
        name: str = "",
        route: str = "",
        permission: Permission | None = None,
        division: Division | None = None,
        answer: AnswerShape | None = None,
        asks_daemon: bool = True,
        words_as_they_are: bool = False,
    ) -> None:
        cls.name, cls.asks_daemon = name, asks_daemon
        cls.method, _, path = route.partition(" ")
        cls.path = f"/api/v2/{path}" if path else ""
        cls.words_as_they_are = words_as_they_are
        cls.permission, cls.answer = permission or cls.permission, answer or cls.answer
        cls.division = division or cls.division

    def __init__(self, **values: object) -> None:
        vars(self).update(values)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    __hash__ = None  # type: ignore[assignment]  # values may be mappings

    @classmethod
    def parameters(cls) -> list[Parameter]:
        """Those of the base classes first; one that is declared again stands where it is declared last."""
        owners: dict[str, type] = {}
        for each in reversed(cls.__mro__):
            for name in vars(each).get("__annotations__", ()):
                owners.pop(name, None)
                owners[name] = each
        hints, found = get_type_hints(cls, include_extras=True), []
        for name, owner in owners.items():
            hint = hints[name]
            if get_origin(hint) is not ClassVar:
                kind, word = get_args(hint)[:2] if get_origin(hint) is Annotated else (hint, None)
                found.append(Parameter(name, kind, word, vars(owner).get(name, MISSING)))
        return found

    def needed(self) -> Permission:
        """The permission that this call needs."""
        return CHANGES if any(getattr(self, name) for name in self.changing) else self.permission

    def asks_servers_alone(self) -> bool:
        """Whether this call needs nothing of the hosts, neither streams nor files: any of the owners can do it."""
        return False

    @classmethod
    def in_path(cls) -> list[str]:
        """The parameters that are part of the address."""
        return _PLACE.findall(cls.path)

    def demand_consistent(self) -> None:
        """Raise DMError for words of the command line that contradict each other."""

    def but(self, **changes: object) -> Self:
        """The same call with other values."""
        return type(self)(**{**vars(self), **changes})

    def request(self) -> tuple[str, str, object]:
        """Method, target and body; raises DMError for a name that can't be part of an address."""
        values = {each.name: getattr(self, each.name) for each in self.parameters() if each.sent}
        target = _PLACE.sub(lambda place: _segment(place[1], str(values.pop(place[1]))), self.path)
        if self.method != "GET":
            return self.method, target, {name: _as_json(value) for name, value in values.items()}
        asked = {name: value for name, value in values.items() if value not in ("", None, ())}
        return self.method, f"{target}?{urlencode(asked, doseq=True)}" if asked else target, None


def first_sentence(text: str | None) -> str:
    """The part of a help that lists show."""
    first, found, _ = (text or "").partition(". ")
    return f"{first}." if found else first


def _segment(parameter: str, name: str) -> str:
    """One part of an address; what can't be one (`..`) is the name of no task and no source either."""
    if name in ("", ".", "..") or "/" in name:
        raise DMError(f"{parameter}-unknown", **{parameter: name})
    return quote(name, safe="")


def _as_json(value: object) -> object:
    if isinstance(value, tuple):
        return [_as_json(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {each.name: _as_json(getattr(value, each.name)) for each in dataclasses.fields(value)}
    return dict(value) if isinstance(value, Mapping) else value


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A source or task file as the user gave it, with what it refers to outside itself."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "hide_input_in_errors": True}

    name: str  # as the user spelled the path, for messages
    text: str
    directory: str  # relative paths in the file start here
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # values of the ${NAMES} in the text


Task = Annotated[str, argument("the task's name, or its file", TASK)]
Tasks = Annotated[str, argument("the task's name, or its file; with -s alone, all tasks of these", TASK)]
Sources = Annotated[tuple[str, ...], option("--source -s", "only this source; may be repeated")]
TaskFile = Annotated[ConfigFile, argument("the task file", FILE)]
