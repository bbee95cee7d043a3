"""Which of two twins runs: the one place that looks at the environment and for the extension.

Who has a quick twin makes a `Twins` of the two, and asks it for the one that is in force. Where nothing else is to be
chosen (an extension that goes to other machines) `extension` says what there is.
"""

from __future__ import annotations

import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar, cast

from dm.accelerator.native import Native, hand_over

if TYPE_CHECKING:
    from dm.accelerator import _native

    _proven: Native = _native  # what the stub says of the extension is what the protocol asks for

VARIABLE: Final = "DM_ACCELERATOR"
NAME: Final = "_native"
_OFF: Final = frozenset({"off", "0", "no", "false"})

Twin = TypeVar("Twin")


def sources_sum() -> int | None:
    """A sum over the C files that the extension is made of; None where the package has none."""
    found = None
    for source in sorted(Path(__file__).parent.glob("*.[ch]")):
        found = zlib.crc32(source.read_bytes(), found or 0)
    return None if found is None else found & 0x7FFFFFFF  # a C long may have 32 bits


def _look_beside_archive() -> None:
    archive = next((parent for parent in Path(__file__).parents if parent.is_file()), None)
    if archive is not None:
        sys.modules[__package__].__path__.append(str(archive.parent))


def _loaded() -> tuple[Native | None, str]:
    if os.environ.get(VARIABLE, "").lower() in _OFF:
        return None, f"off: {VARIABLE} says so"
    _look_beside_archive()
    try:
        module = import_module(f"{__package__}.{NAME}")
    except ImportError as error:
        missing = isinstance(error, ModuleNotFoundError)
        return None, "off: it was not built" if missing else f"off: it can't be loaded ({error})"
    if sources_sum() not in (None, getattr(module, "sources", None)):
        return None, "off: it is made of other sources than those beside it (python -m dm.accelerator.build)"
    found = cast("Native", module)
    hand_over(found)
    return found, "on"


_extension, _state = _loaded()


def extension() -> Native | None:
    """The extension in force; None where everything runs in Python."""
    return _extension


def state() -> str:
    """In a few words, which of the two runs."""
    return _state


def library() -> str | None:
    """The file of the extension in force, for whoever takes it to other machines."""
    return None if _extension is None else str(sys.modules[f"{__package__}.{NAME}"].__file__)


@contextmanager
def using(chosen: Native | None) -> Iterator[None]:
    """What is made or called inside uses this extension, or none."""
    global _extension, _state
    before = _extension, _state
    if chosen is not None:
        hand_over(chosen)
    _extension, _state = chosen, "off: switched off" if chosen is None else "on"
    try:
        yield
    finally:
        _extension, _state = before


class Twins(Generic[Twin]):
    """Two that do the same: the reference in Python, and what makes the quick one of the extension."""

    def __init__(self, reference: Twin, quick: Callable[[Native], Twin]) -> None:
        self.reference = reference
        self.quick = quick

    def __call__(self) -> Twin:
        """The one that is in force."""
        return self.reference if _extension is None else self.quick(_extension)
