"""Options and arguments read without pydantic.

Typer reads every value with it, also the one of an option that was not given, and importing it takes longer than all
else that a verb does. Nearly all values are texts, flags and words of an enumeration, which are what they are. The
others are read by typer as ever.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args, get_origin

from typer import BadParameter
from typer._coercion import RuntimeParam, TypeDescriptor, build_runtime_param
from typer.core import TyperArgument, TyperGroup, TyperOption

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
