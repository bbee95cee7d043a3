"""What a process that holds passwords keeps to itself: its files, its core, its memory.

Files and directories are for its user alone (umask 077), whatever the shell that began it has: a dump, a fix file, a
relay are the source's rows. No core is written when it crashes: neither a file (RLIMIT_CORE, which children inherit)
nor what the kernel pipes to a collector of crashes, which heeds no limit but asks whether the process is dumpable
(core(5)). A process that is not dumpable can't be traced by others of its user either, and its /proc/PID/mem and
environ belong to root (PR_SET_DUMPABLE, prctl(2)); it still sees all of its own /proc/self, and what PR_SET_PDEATHSIG
promises stays. exec makes a process dumpable again, so each one calls this for itself.
"""

from __future__ import annotations

import ctypes
import os
import resource
from typing import Final

OWN_USER_ONLY: Final = 0o077
_PR_SET_DUMPABLE: Final = 4  # linux/prctl.h


def keep_to_itself() -> None:
    """Take all of it away from others, for this process and what it forks; raises OSError."""
    os.umask(OWN_USER_ONLY)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_DUMPABLE)")
