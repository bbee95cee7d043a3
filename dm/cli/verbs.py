"""The verbs of `dmctl`, one line each: how it is called, where it is, what lists say of it.

Making all verbs takes longer than any of them does, so the lists are made of this table, and a verb's module is
imported when that verb is called. A test compares the lines with the modules.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import typer
from typer.core import TyperCommand
from typer.main import get_group

from dm.cli.plain_values import PlainGroup, plain

if TYPE_CHECKING:
    from typer._click import Command, Context


class Verb(NamedTuple):
    """A verb, or a group of verbs."""

    name: str
    module: str
    member: str  # the function, or the Typer of a group
    summary: str  # the first sentence of its help
    words_as_they_are: bool = False  # options, too, also --help: it reads them itself


VERBS: Final = (
    Verb("encrypt", "dm.cli.encrypt", "encrypt", "Encrypt a password of a source or task file."),
    Verb("diff", "dm.cli.diff", "diff", "Compare sources and target."),
    Verb("flashback", "dm.cli.flashback", "flashback", "Write the SQL that takes back row changes, newest first."),
    Verb("reload-table", "dm.cli.reload_table", "reload_table", "Empty a table and load it again while its task runs."),
    Verb("replay", "dm.cli.replay", "replay", "Apply the backlog of a paused task in bulk, by Spark."),
    Verb("update-task", "dm.cli.update_task", "update_task", "Give a running task more tables, sources or settings."),
    Verb("start-relay", "dm.cli.relay", "start_relay", "Pull the sources' binlog into relay files from now on."),
    Verb("stop-relay", "dm.cli.relay", "stop_relay", "Pull no more; files stay."),
    Verb("pause-relay", "dm.cli.relay", "pause_relay", "Let the relay rest until resume-relay."),
    Verb("resume-relay", "dm.cli.relay", "resume_relay", "Go on pulling after pause-relay, or after an error."),
    Verb("purge-relay", "dm.cli.relay", "purge_relay", "Remove relay files that no task needs any more."),
    Verb("check-task", "dm.cli.tasks", "check_task", "Check whether a task can run."),
    Verb("start-task", "dm.cli.tasks", "start_task", "Check a task and start it."),
    Verb("stop-task", "dm.cli.tasks", "stop_task", "Stop a task and forget it."),
    Verb("pause-task", "dm.cli.tasks", "pause_task", "Let a task rest until resume-task."),
    Verb("resume-task", "dm.cli.tasks", "resume_task", "Go on after pause-task, or after an error."),
    Verb("query-status", "dm.cli.query_status", "query_status", "Show all tasks, or one task in detail."),
    Verb("wait", "dm.cli.wait", "wait_task", "Wait until a task is synced or finished."),
    Verb("shutdown", "dm.cli.daemon", "shutdown", "End the daemon; its tasks go on when it is started again."),
    Verb("demo", "dm.cli.demo", "demo", "Show dm at work on throw-away servers.", words_as_they_are=True),
    Verb("logs", "dm.cli.logs", "logs", "Show the logs of a task."),
    Verb("completion", "dm.cli.completion", "completion", "Print a script for completion in a shell."),
    Verb("operate-source", "dm.cli.sources", "sources_app", "Add, update, stop and show sources."),
    Verb("forgotten", "dm.cli.forgotten", "forgotten_app", "List and remove what forgotten tasks have left."),
    Verb("binlog", "dm.cli.binlog", "binlog_app", "Skip or replace single events of the binlog."),
    Verb("binlog-schema", "dm.cli.binlog", "structure_app", "Show or replace the structure of a table."),
    Verb("shard-ddl-lock", "dm.cli.shard_ddl_lock", "locks_app", "Show which shards wait at a DDL, and waive one."),
    Verb("config", "dm.cli.config_verbs", "config_app", "Show, export and import files and settings."),
    Verb("validation", "dm.cli.validation", "validation_app", "Validate applied rows, and show those that are wrong."),
)


def built(verb: Verb) -> Command:
    """The verb itself, with its options and arguments."""
    alone = typer.Typer(pretty_exceptions_enable=False, rich_markup_mode=None)
    member: Any = getattr(import_module(verb.module), verb.member)
    if isinstance(member, typer.Typer):
        alone.add_typer(member, name=verb.name)
    else:
        settings = {"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
        as_they_are = verb.words_as_they_are
        alone.command(verb.name, context_settings=settings if as_they_are else None, add_help_option=not as_they_are)(
            member
        )
    return get_group(alone).commands[verb.name]


class ListedGroup(PlainGroup):
    """A group that holds its verbs as lists show them, and makes the one that is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for verb in VERBS:
            self.add_command(TyperCommand(verb.name, help=verb.summary, rich_markup_mode=None))

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The verb, its name and the words behind it."""
        name, command, rest = super().resolve_command(ctx, args)
        for verb in VERBS:
            if verb.name == name:
                command = built(verb)
                plain([*command.params, command.get_help_option(ctx)])
        return name, command, rest
