"""How often the garbage collector of a unit host looks for cycles: seldom, and never among what was there at the start.

Rows and events are tuples and bytes without cycles, which their reference counts free. But each collection of the
young comes after 700 containers that are not free yet (a batch of rows is more), and what survives two of them counts
for the next full one, which looks at every object of the process: the modules' hundred thousand, and a hundred and
thirty for each table that is known. That was a tenth to a quarter of the work on a row.

So what the imports left is put aside for good, and a collection of the young comes after ten thousand containers. The
older generations follow in Python's own proportion, so memory that only a cycle holds (of an error and its frames, say)
is still found: at most ten thousand containers' worth of it waits.
"""

from __future__ import annotations

import gc
from typing import Final

_YOUNG: Final = 10_000  # containers more than before, behind which the young are looked at
_OLDER: Final = 10  # collections of one generation to one of the next


def settle() -> None:
    """Set the collector of this process; called once, when everything is imported."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG, _OLDER, _OLDER)
