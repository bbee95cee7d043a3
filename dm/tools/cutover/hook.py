"""A person's program that does what only a person knows: stop the writes, move the applications.

It is called with one word. `stop-writes`: no application writes to the sources any more. `switch`: applications use the
target. `start-writes`: after an abort they use the sources again. Exit status 0 says that it is done, 3 that it is left
to dm; anything else is an error. A daemon that was killed calls it again with the same word.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

from dm.errors import DMError

LEFT_TO_DM: Final = 3
HOOK_SECONDS: Final = 60.0
_SAID: Final = 500  # characters of its output that are told
_INHERITED: Final = ("PATH", "HOME", "LANG")


def call(program: str, word: str, environment: Mapping[str, str], seconds: float = HOOK_SECONDS) -> bool:
    """Whether it has done it; False if that is left to dm. Raises DMError `cut-over-hook`."""
    given = {**{name: os.environ[name] for name in _INHERITED if name in os.environ}, **environment}
    asked = {"command": [program, word], "environment": given, "seconds": seconds}
    with tempfile.TemporaryFile() as output:
        with subprocess.Popen(
            [sys.executable, "-m", "dm.tools.cutover.hook_process"],
            stdin=subprocess.PIPE,  # held until it has answered: its end is the daemon's
            stdout=subprocess.PIPE,
            stderr=output,
            bufsize=0,
            start_new_session=True,
        ) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            with suppress(BrokenPipeError):  # then it does not answer either
                process.stdin.write(json.dumps(asked).encode() + b"\n")
            line = process.stdout.read()
        told = json.loads(line) if line else {"how": "the process that calls it was killed"}
        if told.get("status") in (0, LEFT_TO_DM):
            return bool(told["status"] == 0)
        how = told.get("how") or f"it ended with {told['status']}"
        output.seek(0)
        said = output.read().decode(errors="replace").strip()[-_SAID:]
    raise DMError("cut-over-hook", hook=program, word=word, how=f"{how}{f', and said: {said}' if said else ''}")
