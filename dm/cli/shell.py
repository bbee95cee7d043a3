"""The interactive shell: a prompt over the same verbs."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Callable, Sequence

from dm.cli import output as printer

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
