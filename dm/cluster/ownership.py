"""Who owns a source with its relay and subtasks, or what of a task runs once.

A claim is a key that is created where it is absent, bound to the claimant's lease. So of two members one succeeds, and
the key goes with the member's life. Its value is the member's name.

**Ownership prevents needless work, not damage.** A member that is frozen beyond its lease and thawed, or cut off from
etcd alone, still runs units that another member has taken over. What keeps rows right then is the epoch at the target:
the first act of the new run is the fence, and the old run can't commit any more. `mine` decides whether a fenced run
may come back: only if its key is this member's, under a lease that lives.
"""

from __future__ import annotations

from typing import Final

from dm.cluster.etcd import KeyChange
from dm.cluster.lease import Lease
from dm.cluster.mirror import Mirror

OWNERS: Final = "owner/"
SOURCE: Final = "source"
TASK: Final = "task"


class Ownership:
    """What this member owns, and who owns the rest; any thread may ask."""

    def __init__(self, mirror: Mirror, lease: Lease, member: str) -> None:
        self._mirror = mirror
        self._lease = lease
        self._member = member

    def mine(self, kind: str, name: str) -> bool:
        """Whether this member owns it for sure."""
        return self._lease.alive and self._under_lease(kind, name)

    def owner(self, kind: str, name: str) -> str | None:
        """The member that owns it; None where no living member does."""
        found = self._mirror.get(_key(kind, name))
        return None if found is None else found.value

    def owners(self, kind: str) -> dict[str, str]:
        """Everything of a kind that has an owner."""
        return {name: entry.value for name, entry in self._mirror.below(f"{OWNERS}{kind}/").items()}

    def claim(self, kind: str, name: str) -> bool:
        """Own it from now on, unless somebody does; raises DMError."""
        key = _key(kind, name)
        if self._under_lease(kind, name):
            return True
        known = self._mirror.get(key)
        if known is not None and known.value != self._member:
            return False
        # A claim of ours under an earlier lease is bound to the new one, before it goes with the old one.
        claim = KeyChange(key, self._member, self._lease.number)
        return self._mirror.write({key: self._mirror.revision(key)}, [claim]) > 0

    def release(self, kind: str, name: str) -> None:
        """Own it no more, once it is at rest here; raises DMError."""
        key = _key(kind, name)
        known = self._mirror.get(key)
        if known is not None and known.value == self._member:
            self._mirror.write({key: known.revision}, [KeyChange(key, None)])

    def _under_lease(self, kind: str, name: str) -> bool:
        found = self._mirror.get(_key(kind, name))
        return found is not None and found.value == self._member and found.lease == self._lease.number


def _key(kind: str, name: str) -> str:
    return f"{OWNERS}{kind}/{name}"
