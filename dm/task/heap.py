"""What a unit's host keeps of memory that was freed: little, so that the process stays as small as what it holds.

The GNU C library gives each of the first threads that allocate a heap of its own (eight for each processor), and from
one heap nothing is taken for another: with twenty threads that take turns, what all of them needed at some time adds
up. And each large piece that is freed raises the size up to which the next ones come from such a heap, where a small
one behind it keeps all of it from going back to the system. A tenth of `memory-quota` and more was held that way, used
by nobody.

Nearly all allocations happen under the interpreter's lock, so two heaps are no fewer than enough. Another C library
does without these settings, and without what they undo.
"""

from __future__ import annotations

import ctypes
from typing import Final

_M_TRIM_THRESHOLD: Final = -1  # malloc.h
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8
_HEAPS: Final = 2
# A piece of so many bytes is the system's own and goes back when it is freed, as so many at the end of a heap do: what
# the library begins with, before the large pieces that the imports freed.
_LARGE: Final = 128 << 10


def settle() -> None:
    """Set the heap of this process; called once, before there are threads."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, _HEAPS)
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, _LARGE)
