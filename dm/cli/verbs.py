"""The verbs of `dmctl` as its lists show them; options and arguments of a verb are made when it is called.

Making all of them takes longer than any verb does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import typer
from typer.core import TyperCommand
from typer.main import get_group

from dm.cli.parsing import command_of
from dm.cli.plain_values import PlainGroup, plain
from dm.verbs.declaration import Verb, VerbGroup, first_sentence
from dm.verbs.every import GROUPS, VERBS

if TYPE_CHECKING:
    from typer._click import Command, Context

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
        """The verb, its name and the words behind it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name in LISTED:
            command = built(name)
            plain([*command.params, command.get_help_option(ctx)])
        return name, command, rest
