"""`dmctl completion`: the script by which a shell completes verbs, options and names of tasks.

The script asks `dmctl` itself, by an environment variable, with the words that stand in the line so far.
"""

from __future__ import annotations

import os
from typing import Final

VARIABLE: Final = "_DMCTL_COMPLETE"


def script(shell: str) -> str:
    """What a person's shell is to read."""
    from typer._completion_shared import get_completion_script  # shells are looked for with it: only here

    return get_completion_script(prog_name="dmctl", complete_var=VARIABLE, shell=shell)


def be_ready() -> None:
    """Let the shell's question be understood, if this is one."""
    if VARIABLE in os.environ:
        from typer.completion import get_completion_inspect_parameters

        get_completion_inspect_parameters()  # it registers how each shell asks and wants to be answered
