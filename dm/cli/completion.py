"""`dmctl completion`: the script by which a shell completes verbs, options and names of tasks.

The script asks `dmctl` itself, by an environment variable, with the words that stand in the line so far.
"""

from __future__ import annotations

import os
from enum import StrEnum
from typing import Annotated, Final

import typer

from dm.cli import output as printer

VARIABLE: Final = "_DMCTL_COMPLETE"


class ShellName(StrEnum):
    """The shells that can be served."""

    bash = "bash"
    zsh = "zsh"
    fish = "fish"


def completion(shell: Annotated[ShellName, typer.Argument(help="the shell")]) -> None:
    """Print a script for completion in a shell. Use it as: source <(dmctl completion bash)."""
    from typer._completion_shared import get_completion_script  # shells are looked for with it: only here

    printer.print_line(get_completion_script(prog_name="dmctl", complete_var=VARIABLE, shell=shell.value))


def be_ready() -> None:
    """Let the shell's question be understood, if this is one."""
    if VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # it registers how each shell asks and wants to be answered
