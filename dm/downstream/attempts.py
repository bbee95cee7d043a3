"""How often a transaction that gave way to another one is sent again.

The loser of a deadlock finds the other side gone on, so it may try many times. Who waited for a lock in vain has waited
for long already (innodb_lock_wait_timeout, 50 seconds unless set): after a few times a person is to hear of it.
"""

from __future__ import annotations

from typing import Final

from dm.errors import DMError

_AGAIN: Final = {1213: 19, 1205: 2}


class Attempts:
    """Those of one transaction."""

    def __init__(self) -> None:
        self._left = dict(_AGAIN)

    def again(self, error: DMError) -> bool:
        """Whether to try again after this error."""
        number = error.server_errno
        if error.name != "transaction-aborted" or not self._left.get(number):
            return False
        self._left[number] -= 1
        return True
