"""A process that ends with the one that started it, however that one ends (PR_SET_PDEATHSIG, prctl(2)).

The kernel sends the signal when the thread ends that forked the process. exec keeps it.
"""

from __future__ import annotations

import ctypes
import os
import signal
from typing import Final

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent's starting thread ends; exit now if that has happened."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG)")
    if os.getppid() != parent:
        os._exit(1)
