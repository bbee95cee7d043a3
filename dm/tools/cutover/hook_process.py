"""The process between a daemon and a hook (`python -m dm.tools.cutover.hook_process`).

A hook moves applications, and the next daemon calls it anew. So it must not go on when its daemon has died, nor for
longer than its time when its daemon is frozen. This process watches both: its stdin ends with the daemon, and it has a
clock of its own. It then kills the hook's process group: the hook and what it has started, but for programs that left
the group. If this process is killed, the kernel kills the hook.

stdin begins with one line of JSON: `command`, `environment`, `seconds`. stdout is one as well: `status`, or in `how`
why there is none. What the hook says goes to stderr.
"""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys

from dm.parent_process import die_with


def main() -> None:
    """Call the hook, and tell how it went."""
    asked = json.loads(sys.stdin.readline())
    seconds, own = float(asked["seconds"]), os.getpid()
    try:
        hook = subprocess.Popen(
            asked["command"],
            env=asked["environment"],
            stdin=subprocess.DEVNULL,
            stdout=sys.stderr,
            stderr=sys.stderr,
            start_new_session=True,
            preexec_fn=lambda: die_with(own),  # noqa: PLW1509 -- there are no other threads here
        )
    except OSError as error:
        _tell("how", error.strerror or str(error))
        return
    ended = os.pidfd_open(hook.pid)
    ready, _, _ = select.select([ended, sys.stdin], [], [], seconds)
    if ended in ready:
        _tell("status", hook.wait())
        return
    os.killpg(hook.pid, signal.SIGKILL)
    hook.wait()
    if not ready:  # else nobody is there to be told
        _tell("how", f"it did not end within {seconds:g} s")


def _tell(name: str, value: str | int) -> None:
    sys.stdout.write(json.dumps({name: value}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
