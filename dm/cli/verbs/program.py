"""The text of `encrypt`, `shutdown`, `completion` and `demo`."""

from __future__ import annotations

import sys

import typer

from dm.cli import output as printer
from dm.cli.caller import Caller, runs
from dm.cli.completion import script
from dm.errors import DMError
from dm.verbs.program import Completion, Demo, Encrypt, Shutdown
from dm.worker.installed import demand_worker


@runs(Encrypt)
def encrypt(asked: Encrypt, caller: Caller) -> None:
    """The daemon does it, since the key is where it is."""
    text = asked.text if asked.text is not None else _password()
    if not text:
        raise DMError("usage", problem="the password is empty", hint="dmctl encrypt '<password>'")
    answer = caller.ask(asked.but(text=text))
    if caller.json:
        printer.print_json(answer)
    else:
        printer.print_line(answer["cipherText"])


def _password() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("password", hide_input=True, err=True))
    return sys.stdin.readline().removesuffix("\n")


@runs(Shutdown)
def shutdown(asked: Shutdown, caller: Caller) -> None:
    """A daemon that does not run is not started for this."""
    if not caller.client.running():
        printer.say("no dm-worker runs")
        return
    answer = caller.ask(asked)
    if caller.json:
        printer.print_json(answer)
    else:
        printer.print_line(f"dm-worker (pid {answer['pid']}) ends")


@runs(Completion)
def completion(asked: Completion, _caller: Caller) -> None:
    """The script, for `source`."""
    printer.print_line(script(asked.shell))


@runs(Demo)
def demo(asked: Demo, _caller: Caller) -> int:
    """Its options are its own."""
    demand_worker()
    from dm.cli.demo import main

    return main(asked.words)
