"""DM's verbs and options that are not those of `dmctl`.

Verbs under an older name run under their new one. Verbs without an equal say what to use. DM's options that have
nothing to change here are taken, and stderr says why they have no effect: scripts for DM run as they are.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NoReturn

from dm.cli import output as printer
from dm.cli.commands import ListedGroup
from dm.errors import DMError

if TYPE_CHECKING:
    from typer._click import Context

_ACTIONS: Final = ("skip", "replace", "revert", "inject", "list")
_STRUCTURE_ACTIONS: Final = {"get": "list", "set": "update", "remove": "delete"}
_SOURCE: Final = ("-s", "--source")
_WITH_VALUE: Final = (*_SOURCE, "-w", "--worker", "-b", "--binlog-pos", "-o", "--output", "--addr")

_DMS_ADDRESS: Final = "--master-addr"

_NO_MASTER = "there is no master: any dm-worker takes any verb"
_BREAK_LOCK = "use `dmctl shard-ddl-lock unlock <lock-id>`"
_BINLOG = "use `dmctl binlog skip|replace|inject|revert|list <task>`"

INSTEAD: Final[Mapping[str, str]] = {
    "operate-leader": _NO_MASTER,
    "break-ddl-lock": _BREAK_LOCK,
    "start-validation": "use `dmctl validation start <task>`",
    "stop-validation": "use `dmctl validation stop <task>`",
    "refresh-worker-tasks": "nothing is to be refreshed: see `dmctl query-status`",
    "update-master-config": f"{_NO_MASTER}; its settings are those of `dmctl config worker`",
    "update-relay": "use `dmctl operate-source update <file>`",
    "switch-relay-master": "nothing is to be done: a relay sees that another server answers and goes on",
    "migrate-relay": "use `dmctl stop-task <task>` and `dmctl start-task <file> --start-time ...`",
    "query-error": "use `dmctl query-status <task>`",
    "sql-skip": _BINLOG,
    "sql-replace": _BINLOG,
    "sql-inject": _BINLOG,
}
"""What to do in place of a verb that has no equal here."""

INSTEAD_OF_CONFIG: Final[Mapping[str, str]] = {
    "master": f"{_NO_MASTER}: `dmctl config worker` shows its settings",
    "task-template": "task files are templates: keep them where you keep your code, and see `task-examples/`",
}
"""The same for the verbs of `config`."""


@dataclass(frozen=True, slots=True)
class Idle:
    """An option of DM's that changes nothing here."""

    names: tuple[str, ...]
    why: str
    valued: bool = True


_BATCH: Final = Idle(("--batch-size",), "all tasks of a source are asked at once")
_WORKER: Final = Idle(("-w", "--worker"), "it is of `operate-source create`; `dmctl transfer-source` moves a source")

IDLE: Final[Mapping[str, tuple[Idle, ...]]] = {
    "check-task": (Idle(("-e", "--error", "-w", "--warn"), "all findings are shown"),),
    "pause-task": (_BATCH,),
    "resume-task": (_BATCH,),
    "query-status": (Idle(("--more",), "what validators found is always shown", valued=False),),
    "operate-source": (_WORKER,),
}
"""By verb: DM's options that have no effect."""


class DmctlVerbs(ListedGroup):
    """The verbs of `dmctl`, with DM's other names for them."""

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Begin with what holds for all verbs, which in DM may also stand after one."""
        address, args = _apart(args, (_DMS_ADDRESS,))
        if address:
            printer.say(f"`{_DMS_ADDRESS}` is DM's: this is `--addr`, which names a dm-worker")
            address = [word.replace(_DMS_ADDRESS, "--addr", 1).replace("http://", "", 1) for word in address]
        first, others = _apart(args, ("--rpc-timeout",))
        return super().parse_args(ctx, [*address, *first, *others])

    def resolve_command(self, ctx: Context, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """Find the verb; an older name becomes the present one, and that is said."""
        verb = args[0] if args else ""
        if verb == "help" and not ctx.resilient_parsing:
            if not args[1:]:
                printer.print_line(ctx.get_help())
                ctx.exit()
            args = [*args[1:], "--help"]
            verb = args[0]
        if verb not in self.commands and not ctx.resilient_parsing:
            if verb in INSTEAD:
                raise DMError("usage", problem=f"`{verb}` of DM is not there", hint=INSTEAD[verb])
            if verb in RENAMED:
                args = RENAMED[verb](args[1:])
                printer.say(f"`{verb}` is an older name: this is `dmctl {' '.join(args[:2])}`")
        if args and not ctx.resilient_parsing:
            args = _as_here(args)
        name, command, rest = super().resolve_command(ctx, args)
        return name, command, rest


def _as_here(words: Sequence[str]) -> list[str]:
    """A verb of DM's without the words that have nothing to change here; raises DMError for what is not there."""
    verb, *rest = words
    if verb == "config" and rest and rest[0] in INSTEAD_OF_CONFIG:
        raise DMError("usage", problem=f"`config {rest[0]}` of DM is not there", hint=INSTEAD_OF_CONFIG[rest[0]])
    if verb == "operate-source" and any(word in ("-p", "--print-sample-config") for word in rest):
        hint = "`task-examples/` has source files, and docs/configuration.md all their keys"
        raise DMError("usage", problem=f"`{verb} -p` of DM is not there", hint=hint)
    for idle in () if rest[:1] == ["create"] else IDLE.get(verb, ()):
        taken, rest = _apart(rest, idle.names, valued=idle.valued)
        if taken:
            printer.say(f"`{taken[0].partition('=')[0]}` has no effect: {idle.why}")
    if verb in ("start-relay", "stop-relay"):
        sources, others = _apart(rest, _WITH_VALUE)
        workers = [word for word in others if not word.startswith("-")]
        if workers[1:] or (workers and verb == "stop-relay"):
            printer.say(f"{', '.join(workers)}: a relay runs at the one member that has its source")
            workers = []
        rest = [*sources, *(word for word in others if word.startswith("-")), *(f"--worker={one}" for one in workers)]
    return [verb, *rest]


def _handle_error(arguments: Sequence[str]) -> list[str]:
    """`handle-error <task> skip ..` is `binlog skip <task> ..`."""
    for place, word in enumerate(arguments):
        if place and word in _ACTIONS and arguments[place - 1] not in _WITH_VALUE:
            return ["binlog", word, *arguments[:place], *arguments[place + 1 :]]
    raise DMError("usage", problem="`handle-error` without what is to be done", hint=_BINLOG)


class _Words(argparse.ArgumentParser):
    """The words after `operate-schema`."""

    def error(self, message: str) -> NoReturn:
        """Say it as dmctl does."""
        hint = "use `dmctl binlog-schema list|update|delete <task> <database> <table>`"
        raise DMError("usage", problem=f"`operate-schema`: {message}", hint=hint)


def _operate_schema(arguments: Sequence[str]) -> list[str]:
    """`operate-schema set -s one t -d db -t tbl file` is `binlog-schema update t db tbl file -s one`."""
    sources, others = _apart(arguments, _SOURCE)
    parser = _Words(prog="dmctl operate-schema", add_help=False)
    parser.add_argument("action", choices=sorted(_STRUCTURE_ACTIONS))
    parser.add_argument("task")
    parser.add_argument("file", nargs="?")
    parser.add_argument("-d", "--database", required=True)
    parser.add_argument("-t", "--table", required=True)
    told, others = parser.parse_known_intermixed_args(others)
    words = [told.task, told.database, told.table, *([told.file] if told.file else [])]
    return ["binlog-schema", _STRUCTURE_ACTIONS[told.action], *words, *sources, *others]


def _apart(arguments: Sequence[str], options: Sequence[str], *, valued: bool = True) -> tuple[list[str], list[str]]:
    """These options, with their values if they are `valued`, and all other words."""
    taken: list[str] = []
    others: list[str] = []
    words = iter(arguments)
    for word in words:
        if word == "--":
            others += [word, *words]
        elif word in options:
            value = next(words, None) if valued else None
            taken += [word] if value is None else [word, value]
        elif word.partition("=")[0] in options:
            taken.append(word)
        else:
            others.append(word)
    return taken, others


def _get_config(arguments: Sequence[str]) -> list[str]:
    """`get-config task shop --file f` is `config task shop --path f`."""
    return ["config", *("--path" if word in ("--file", "-f") else word for word in arguments)]


RENAMED: Final[Mapping[str, Callable[[Sequence[str]], list[str]]]] = {
    "handle-error": _handle_error,
    "operate-schema": _operate_schema,
    "show-ddl-locks": lambda arguments: ["shard-ddl-lock", "list", *arguments],
    "unlock-ddl-lock": lambda arguments: ["shard-ddl-lock", "unlock", *arguments],
    "get-config": _get_config,
    "get-task-config": lambda arguments: _get_config(["task", *arguments]),
}
"""Verbs under an older name, and their words under the present one."""
