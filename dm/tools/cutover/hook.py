"""A person's program that does what only a person knows: stop the writes, move the applications.

It is called with one word. `stop-writes`: no application writes to the sources any more. `switch`: applications use the
target. `start-writes`: after an abort they use the sources again. Exit status 0 says that it is done, 3 that it is left
to dm; anything else is an error. A daemon that was killed calls it again with the same word.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Final

from dm.errors import DMError

LEFT_TO_DM: Final = 3
HOOK_SECONDS: Final = 60.0
_SAID: Final = 500  # characters of its output that are told


def call(program: str, word: str, environment: Mapping[str, str], seconds: float = HOOK_SECONDS) -> bool:
    """Whether it has done it; False if that is left to dm. Raises DMError `cut-over-hook`."""
    given = {**{name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}, **environment}
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                [program, word],
                env=given,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise DMError("cut-over-hook", hook=program, word=word, how=error.strerror or str(error)) from error
        try:
            status = process.wait(seconds)
            how = f"it ended with {status}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            status, how = process.wait(), f"it did not end within {seconds:g} s"
        if status in (0, LEFT_TO_DM):
            return status == 0
        output.seek(0)
        said = output.read().decode(errors="replace").strip()[-_SAID:]
    raise DMError("cut-over-hook", hook=program, word=word, how=f"{how}{f', and said: {said}' if said else ''}")
