"""The compiled parts, where there are any: one C extension that does what a loop here and there does in Python.

Everything is complete without it, in Python, and what Python does is what is right: the compiled parts give the same
answers or decline, and then Python reads the same bytes. So they need no errors of their own, and a test can hold one
against the other. They are built with the package where a C compiler is (`scripts/install.sh` says where not), and
DM_ACCELERATOR=off in the environment leaves them out.

`native` is the extension or None; `state` says in a few words which of the two runs.
"""

from __future__ import annotations

import os
from types import ModuleType
from typing import Final

VARIABLE: Final = "DM_ACCELERATOR"
_OFF: Final = frozenset({"off", "0", "no", "false"})


def _loaded() -> tuple[ModuleType | None, str]:
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return None, f"off: {VARIABLE} says so"
    try:
        from dm.accelerator import _native
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "off: it was not built" if missing else f"off: it can't be loaded ({error})"
    return _native, "on"


native, state = _loaded()
