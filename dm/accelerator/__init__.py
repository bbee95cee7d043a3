"""The compiled parts, where there are any: one C extension that does what a loop here and there does in Python.

Everything is complete without it, in Python, and what Python does is what is right: the compiled parts give the same
answers or decline, and then Python reads the same bytes. So they need no errors of their own, and a test can hold one
against the other. They are built with the package where a C compiler is (`scripts/install.sh` says where not), and
DM_ACCELERATOR=off in the environment leaves them out.

Nothing loads an extension from inside a zip file, which is how the package comes to the workers of a cluster. There it
lies beside the archive (`dm.spark.session`), under the name that says for which Python and platform it is; others do
not find it.

`native` is the extension or None; `state` says in a few words which of the two runs.
"""

from __future__ import annotations

import os
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

VARIABLE: Final = "DM_ACCELERATOR"
_OFF: Final = frozenset({"off", "0", "no", "false"})


def _look_beside_archive() -> None:
    archive = next((parent for parent in Path(__file__).parents if parent.is_file()), None)
    if archive is not None:
        __path__.append(str(archive.parent))


def _loaded() -> tuple[ModuleType | None, str]:
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return None, f"off: {VARIABLE} says so"
    _look_beside_archive()
    try:
        return import_module(f"{__name__}._native"), "on"
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "off: it was not built" if missing else f"off: it can't be loaded ({error})"


native, state = _loaded()
