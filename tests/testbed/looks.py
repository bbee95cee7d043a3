"""How often a test looks for what it waits for: looking takes the machine's time from what is waited for.

The longer a wait has lasted, the longer is the rest before the next look: a tenth of it, so that no wait lasts a tenth
longer than it must. A look at a syncer's status has it ask both servers and store its checkpoint.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

_SHORTEST: Final = 0.02
_LONGEST: Final = 0.1


def looks(seconds: float) -> Iterator[None]:
    """One item per look, until the time is over."""
    began = time.monotonic()
    while (waited := time.monotonic() - began) < seconds:
        yield
        time.sleep(min(max(waited / 10, _SHORTEST), _LONGEST))
