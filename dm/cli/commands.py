"""The verbs of `dmctl` as typer's commands, made from their declarations.

A list shows all verbs; options and arguments of a verb are made only when it is called, since making all of them takes
longer than any verb does. Values are read without pydantic: typer would read every value with it, even of an option
that was not given, and importing it takes longer than the rest of the call. Nearly all values are texts, flags and
words of an enumeration, and are taken as they are. Typer reads the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from inspect import Parameter as Place
from inspect import Signature
from types import NoneType
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, get_args, get_origin

import typer
from typer import BadParameter
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_group

from dm.cli.caller import Caller, carry_out
from dm.cli.client import RequestRefused
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of
from dm.cli.output import Format
from dm.errors import DMError
from dm.verbs.declaration import MISSING, ConfigFile, Parameter, Verb, VerbGroup, Word, WordForm, first_sentence
from dm.verbs.every import GROUPS, VERBS
from dm.verbs.status import ListTasks

if TYPE_CHECKING:
    from typer._click import Command, Context
    from typer.core import _TyperParameter


@dataclass(frozen=True)
class _PlainParam(RuntimeParam):
    """Takes what is plain as it is."""

    descriptor: TypeDescriptor

    def _coerce_value(self, value: Any, param: _TyperParameter, ctx: Context) -> Any:
        kind: Any = self.annotation
        if self.parameter_info.parser is None:
            if isinstance(kind, type) and isinstance(value, kind):
                return value
            if isinstance(kind, type) and issubclass(kind, Enum):
                return _member(kind, value, param, ctx)
            if get_origin(kind) is list and get_args(kind) == (str,) and all(isinstance(one, str) for one in value):
                return list(value)
        return build_runtime_param(self.descriptor)._coerce_value(value, param, ctx)


def _member(kind: type[Enum], value: object, param: _TyperParameter, ctx: Context) -> Enum:
    try:
        return kind(value)
    except ValueError:
        words = ", ".join(repr(member.value) for member in kind)
        raise BadParameter(f"{value!r} is not one of {words}.", ctx, param) from None


class PlainGroup(TyperGroup):
    """A group of verbs whose values are read so."""

    default = ""  # the verb that is meant when none is named

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Begin with the default verb where none is named, as DM does with `shard-ddl-lock shop`."""
        if self.default and "--help" not in args and not any(word in self.commands for word in args):
            args = [self.default, *args]
        return super().parse_args(ctx, args)

    def get_command(self, ctx: Context, cmd_name: str) -> Command | None:
        """The verb."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            plain([*command.params, command.get_help_option(ctx)])
        return command

    def get_help_option(self, ctx: Context) -> TyperOption | None:
        """The group's `--help`."""
        option = super().get_help_option(ctx)
        plain([option])
        return option

    def make_context(self, *arguments: Any, **more: Any) -> Context:
        """Begin with the group's own options."""
        plain(self.params)
        return super().make_context(*arguments, **more)


def plain(params: Iterable[object]) -> None:
    """Have these options and arguments read so."""
    for param in params:
        if isinstance(param, TyperArgument | TyperOption):
            descriptor = param.type_descriptor
            param._runtime_param = _PlainParam(descriptor.parameter_info, descriptor.annotation, descriptor)


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


LISTED: Final[dict[str, type[Verb] | VerbGroup]] = {
    **{verb.name: verb for verb in VERBS if verb.name and " " not in verb.name},
    **{group.name: group for group in GROUPS},
}
"""By the first word of a command line, in the order of `dmctl --help`."""


def built(name: str) -> Command:
    """A verb, or a group with its verbs, with options and arguments."""
    alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    found = LISTED[name]
    if isinstance(found, VerbGroup):
        alone.add_typer(_group(found), name=name)
    else:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
        as_they_are = found.words_as_they_are
        alone.command(name, context_settings=settings if as_they_are else None, add_help_option=not as_they_are)(
            command_of(found)
        )
    return get_group(alone).commands[name]


def _group(group: VerbGroup) -> typer.Typer:
    kind = type(group.name, (PlainGroup,), {"default": group.default})
    made = typer.Typer(cls=kind, help=group.help, no_args_is_help=not group.default, rich_markup_mode=None)
    for verb in VERBS:
        first, _, second = verb.name.partition(" ")
        if first == group.name:
            made.command(second)(command_of(verb))
    return made


class ListedGroup(PlainGroup):
    """A group that holds its verbs as lists show them, and makes the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for name, found in LISTED.items():
            text = found.help if isinstance(found, VerbGroup) else found.__doc__
            self.add_command(TyperCommand(name, help=first_sentence(text), rich_markup_mode=None))

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb, its name and the words after it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in LISTED:
            command = built(name)
            plain([*command.params, command.get_help_option(ctx)])
        return name, command, rest
