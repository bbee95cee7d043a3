"""Arguments and options of `dmctl`, made from the declaration of a verb."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum
from inspect import Parameter as Place
from inspect import Signature
from types import NoneType
from typing import Annotated, Any, Literal, get_args, get_origin

import typer

from dm.cli.caller import Caller, carry_out
from dm.cli.client import RequestRefused
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of
from dm.cli.output import Format
from dm.errors import DMError
from dm.verbs.declaration import MISSING, Parameter, Verb, Word, WordForm
from dm.verbs.parameters import ConfigFile
from dm.verbs.tasks import ListTasks

_WithoutLetter = Annotated[Format | None, typer.Option("--output", help="table (default) or json")]


def command_of(verb: type[Verb]) -> Callable[..., None]:
    """The function that typer calls with the words of a command line."""
    if verb.words_as_they_are:

        def as_they_are(context: typer.Context) -> None:
            carry_out(verb, {"words": tuple(context.args)}, Caller(None, json=False))

        as_they_are.__doc__ = verb.__doc__
        return as_they_are
    parameters = {_name(each): each for each in verb.parameters() if each.word is not None}

    def command(output: Format | None = None, addr: str | None = None, **words: Any) -> None:
        values = {parameters[name].name: _value(word) for name, word in words.items() if word is not None}
        carry_out(verb, values, Caller(addr, json=as_json(output)))

    places = [_place(name, each) for name, each in parameters.items()]
    if verb.asks_daemon:
        taken = {flag for each in parameters.values() if each.word is not None for flag in each.word.flags}
        wanted: Any = _WithoutLetter if "-o" in taken else OutputOption
        for name, kind in (("output", wanted), ("addr", AddrOption)):
            places.append(Place(name, Place.KEYWORD_ONLY, annotation=kind, default=None))
    command.__signature__ = Signature(places)  # type: ignore[attr-defined]  # it is what typer looks at
    command.__annotations__ = {each.name: each.annotation for each in places}
    command.__doc__ = verb.__doc__
    return command


def _name(parameter: Parameter) -> str:
    assert parameter.word is not None
    return parameter.word.name or parameter.name


def _place(name: str, parameter: Parameter) -> Place:
    word, default = parameter.word, parameter.default
    assert word is not None
    kind = _kind(parameter)
    if default is MISSING or word.required:
        default = Place.empty
    elif default == ():
        kind, default = kind | None, None
    return Place(name, Place.KEYWORD_ONLY, annotation=Annotated[kind, _for_typer(word)], default=default)


def _kind(parameter: Parameter) -> Any:
    """The type that typer reads: files are paths, tuples are lists, words of a choice are an enumeration."""
    kind = parameter.type
    if NoneType in get_args(kind):
        (kind,) = (each for each in get_args(kind) if each is not NoneType)
        return _kind(replace(parameter, type=kind)) | None
    if get_origin(kind) is tuple:
        return list[str]
    if get_origin(kind) is Literal:
        return Enum(parameter.name, {word: word for word in get_args(kind)})
    return str if kind is ConfigFile else kind


def _value(word: Any) -> object:
    """What the declaration has in place of what typer gives."""
    if isinstance(word, Enum):
        return word.value
    return tuple(word) if isinstance(word, list) else word


def _for_typer(word: Word) -> Any:
    if word.flags:
        return typer.Option(*word.flags, help=word.help, min=word.least)
    return typer.Argument(help=word.help, autocompletion=task_names if word.reading is WordForm.TASK else None)


def task_names(incomplete: str) -> Sequence[str]:
    """Tasks whose names begin so, for a shell's completion; a daemon is not started for that."""
    try:
        client = client_of(None)
        known = client.ask(ListTasks())["tasks"] if client.running() else []
    except (
        DMError,
        RequestRefused,
    ):  # the shell then offers files; a message would stand in the middle of the line being typed
        return []
    return [str(task["taskName"]) for task in known if str(task["taskName"]).startswith(incomplete)]
