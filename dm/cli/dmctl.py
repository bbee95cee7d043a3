"""`dmctl`: DM's verbs on the command line, and a shell with the same verbs when none is given."""

from __future__ import annotations

import contextlib
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from dm.cli import output as printer
from dm.cli.client import RequestRefused, Shown
from dm.cli.commands import LISTED
from dm.cli.completion import be_ready
from dm.cli.invocation import (
    BAD_USAGE,
    FAILED,
    OK,
    PRECHECK_FAILED,
    AddrOption,
    EndedWithError,
    OutputOption,
    RpcTimeoutOption,
    SslCaOption,
    SslCertOption,
    SslKeyOption,
    TokenFileOption,
    settings,
)
from dm.cli.older_verbs import DmctlVerbs
from dm.cli.output import Format
from dm.errors import DMError, ErrorReport

# The interactive shell: a prompt over the same verbs.

PROMPT = "» "


class Shell:
    """Reads lines and executes them until the input ends or `exit` is said."""

    def __init__(self, execute: Callable[[Sequence[str]], int], verbs: Sequence[str], interactive: bool) -> None:
        self._execute = execute
        self._verbs = verbs
        self._interactive = interactive

    def run(self) -> int:
        """The exit status of the last command, as of a script."""
        if self._interactive:
            self._edit_lines()
            printer.say("dmctl: `help` lists the verbs, `exit` leaves")
        status = 0
        while True:
            try:
                line = input(PROMPT) if self._interactive else input()
            except EOFError:
                return status
            except KeyboardInterrupt:
                printer.say("")
                continue
            try:
                words = shlex.split(line, comments=True)
            except ValueError as error:
                printer.say(str(error))
                status = 2
                continue
            if not words:
                continue
            if words[0] in ("exit", "quit"):
                return status
            if words[0] == "dmctl":
                words = words[1:]  # as copied from the manual
            if words == ["help"]:
                words = ["--help"]
            elif words and words[0] == "help":
                words = [*words[1:], "--help"]
            if words:
                status = self._execute(words)

    def _edit_lines(self) -> None:
        with contextlib.suppress(ImportError):  # a Python without readline reads plain lines
            import readline

            readline.set_completer(self._complete)
            readline.parse_and_bind("tab: complete")

    def _complete(self, text: str, state: int) -> str | None:
        matching = [f"{verb} " for verb in [*self._verbs, "help", "exit"] if verb.startswith(text)]
        return matching[state] if state < len(matching) else None


_PRECHECK_CODES = (26005, 26007)

app = typer.Typer(
    name="dmctl",
    cls=DmctlVerbs,
    help="Controls dm: sources are upstream servers, tasks migrate from sources into a target.",
    add_completion=False,
    no_args_is_help=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from dm.worker.installed import installed_version  # what looks it up is imported for no other verb

        printer.print_line(f"dmctl {installed_version()}")
        raise typer.Exit


VersionOption = Annotated[
    bool, typer.Option("--version", "-V", callback=_print_version, is_eager=True, help="print the version")
]


@app.callback(invoke_without_command=True)
def start(
    context: typer.Context,
    output: OutputOption = None,
    addr: AddrOption = None,
    rpc_timeout: RpcTimeoutOption = None,
    token_file: TokenFileOption = None,
    ssl_ca: SslCaOption = None,
    ssl_cert: SslCertOption = None,
    ssl_key: SslKeyOption = None,
    version: VersionOption = False,
) -> None:
    """Without a verb: an interactive shell."""
    settings.output, settings.addr = output or settings.output, addr or settings.addr
    settings.seconds = rpc_timeout or settings.seconds
    if token_file or ssl_ca or ssl_cert or ssl_key:
        settings.shown = Shown.of(os.environ, token=token_file, authority=ssl_ca, certificate=ssl_cert, key=ssl_key)
    if context.invoked_subcommand is None:
        raise typer.Exit(Shell(execute, sorted(LISTED), sys.stdin.isatty()).run())


def _exit_status(report: ErrorReport) -> int:
    """What an error ends with, unless its verb says otherwise."""
    if report["ErrCode"] in _PRECHECK_CODES:
        return PRECHECK_FAILED
    return BAD_USAGE if report["ErrClass"] == "config" else FAILED


def execute(arguments: Sequence[str]) -> int:
    """Run one command line; returns the exit status. Errors are said, never thrown."""
    wants_json = bool({"json", "--output=json", "-ojson"} & {*arguments}) or settings.output is Format.json
    be_ready()
    try:
        app(list(arguments), prog_name="dmctl")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else OK
    except EndedWithError as ended:
        _say(ended.error, wants_json=wants_json)
        return ended.status
    except (RequestRefused, DMError) as error:
        return _exit_status(_say(error, wants_json=wants_json))
    return OK


def _say(error: RequestRefused | DMError, *, wants_json: bool) -> ErrorReport:
    """Print it, as JSON too where that is wanted."""
    if isinstance(error, DMError):
        if wants_json:
            printer.print_json({"result": False, "msg": str(error), "error": error.report()})
        printer.print_error(error.report())
        return error.report()
    if wants_json:
        printer.print_json(error.answer)
    if "checkResult" in error.answer and not wants_json:
        printer.failed_checks(error.report, error.answer["checkResult"])
    else:
        printer.print_error(error.report)
    return error.report


def main() -> None:
    """The console script."""
    sys.exit(execute(sys.argv[1:]))


if __name__ == "__main__":
    main()
