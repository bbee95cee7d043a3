"""How `dmctl` carries out a verb: its words are read, the daemon is asked, the answer is printed.

Most verbs ask once and print the answer; their text is a function marked with `shows`. A verb that asks several times,
waits or asks a person is a function marked with `runs`. A verb's functions stand in the file of dm/cli/verbs that is
named like the one of dm/verbs that declares it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeVar

import typer

from dm.cli import output as printer
from dm.cli.client import Client, read_config_file
from dm.cli.invocation import OK, client_of, errors_end_with, is_file
from dm.errors import DMError
from dm.verbs.declaration import Verb, WordForm
from dm.verbs.tasks import NameOfTask

Answer = dict[str, Any]
V = TypeVar("V", bound=Verb)


class Caller:
    """Who asks which daemon, and how the answer is wanted."""

    def __init__(self, addr: str | None, *, json: bool) -> None:
        self._addr = addr
        self.json = json

    @cached_property
    def client(self) -> Client:
        """The daemon that is meant."""
        return client_of(self._addr)

    def ask(self, verb: Verb) -> Answer:
        """The daemon's answer; raises Refused and DMError."""
        return self.client.ask(verb)

    def show(self, answer: Answer, text: Callable[[Answer], None]) -> None:
        """Print the answer as it came, or its text."""
        printer.print_json(answer) if self.json else text(answer)

    def demand_text(self, *, follow: bool) -> None:
        """Refuse to follow in JSON."""
        if follow and self.json:
            hint = "poll `dmctl query-status <task> -o json`"
            raise DMError("usage", problem="--follow has no JSON form", hint=hint)

    def read(self, asked: V) -> V:
        """The same call, with values in place of words: files are read, and asked for the names of their tasks."""
        return asked.but(
            **{
                each.name: self._value(getattr(asked, each.name), each.word.reading)
                for each in asked.parameters()
                if each.word is not None and each.word.reading is not WordForm.AS_IT_IS
            }
        )

    def _value(self, word: Any, reading: WordForm) -> object:
        if isinstance(word, tuple):
            return tuple(self._value(one, reading) for one in word)
        if reading is WordForm.FILE:
            return read_config_file(word)
        if reading is WordForm.TASK:
            return self.ask(NameOfTask(file=read_config_file(word)))["taskName"] if is_file(word) else word
        return str(Path(word).absolute()) if word else ""


@dataclass(frozen=True, slots=True)
class _Text:
    """What carries out a verb; it returns the exit status."""

    run: Callable[[Any, Caller], int | None]
    errors: int | None  # the exit status of all errors, where it is not the usual one


TEXTS: Final[dict[type[Verb], _Text]] = {}


def runs(
    *verbs: type[V], errors: int | None = None
) -> Callable[[Callable[[V, Caller], int | None]], Callable[[V, Caller], int | None]]:
    """Mark the function that carries out these verbs, from their words as they were given to the exit status."""

    def mark(run: Callable[[V, Caller], int | None]) -> Callable[[V, Caller], int | None]:
        TEXTS.update({verb: _Text(run, errors) for verb in verbs})
        return run

    return mark


def shows(
    *verbs: type[V], status: Callable[[Answer], int] = lambda _: OK
) -> Callable[[Callable[[V, Answer], None]], Callable[[V, Answer], None]]:
    """Mark the function that prints the answer to these verbs; `status` is the exit status in either form."""

    def mark(show: Callable[[V, Answer], None]) -> Callable[[V, Answer], None]:
        def run(asked: V, caller: Caller) -> int:
            asked = caller.read(asked)
            answer = caller.ask(asked)
            caller.show(answer, lambda answer: show(asked, answer))
            return status(answer)

        runs(*verbs)(run)
        return show

    return mark


def carry_out(verb: type[Verb], words: Mapping[str, object], caller: Caller) -> None:
    """Do what a command line says; raises DMError, Refused, and Exit for a status that is not 0."""
    import_module(f"dm.cli.verbs.{verb.__module__.rpartition('.')[2]}")
    text = TEXTS[verb]
    with nullcontext() if text.errors is None else errors_end_with(text.errors):
        asked = verb(**words)
        asked.demand_consistent()
        status = text.run(asked, caller)
    if status:
        raise typer.Exit(status)
