"""The compiled parts, where there are any: one C extension that does what a loop here and there does in Python.

Everything is complete without it, in Python, and what Python does is what is right: the compiled parts give the same
answers or decline, and then Python reads the same bytes. So they need no errors of their own, and a test can hold one
against the other. They are built with the package where a C compiler is (`scripts/install.sh` says where not), and
DM_ACCELERATOR=off in the environment leaves them out.

Nothing loads an extension from inside a zip file, which is how the package comes to the workers of a cluster. There it
lies beside the archive (`dm.spark.session`), under the name that says for which Python and platform it is; others do
not find it.

An extension that is older or newer than the C files beside it (a checkout of another commit) knows other functions than
the Python around it calls, so it is left out, too, until it is built again.

`native` is the extension or None; `state` says in a few words which of the two runs.
"""

from __future__ import annotations

import os
import zlib
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

VARIABLE: Final = "DM_ACCELERATOR"
_OFF: Final = frozenset({"off", "0", "no", "false"})


def sources_sum() -> int | None:
    """A sum over the C files that the extension is made of; None where the package has none."""
    found = None
    for source in sorted(Path(__file__).parent.glob("*.[ch]")):
        found = zlib.crc32(source.read_bytes(), found or 0)
    return None if found is None else found & 0x7FFFFFFF  # a C long may have 32 bits


def _look_beside_archive() -> None:
    archive = next((parent for parent in Path(__file__).parents if parent.is_file()), None)
    if archive is not None:
        __path__.append(str(archive.parent))


def _loaded() -> tuple[ModuleType | None, str]:
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return None, f"off: {VARIABLE} says so"
    _look_beside_archive()
    try:
        found = import_module(f"{__name__}._native")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "off: it was not built" if missing else f"off: it can't be loaded ({error})"
    if sources_sum() not in (None, getattr(found, "sources", None)):
        return None, "off: it is made of other sources than those beside it (python -m dm.accelerator.build)"
    return found, "on"


native, state = _loaded()
