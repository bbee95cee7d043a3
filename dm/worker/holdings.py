"""What this member runs is made to fit what etcd says: sources are claimed, taken up, and let go.

One thread, woken by the watch and the lease. It waits for time only where a claim's turn is to come (dm/cluster/
placement.py), or where etcd could not be asked. So at rest nothing polls.

The rules, for each source of the registry:

- Nobody owns it: claimed in this member's turn, then taken up.
- This member owns it, and it does not run here: taken up.
- It runs here, and nobody owns it, as after an outage of etcd longer than the lease: claimed, and it goes on. It never
  stopped.
- It runs here, and another member owns it: let go. The other's run has fenced this one at the target, or will.

While etcd can't be reached, nothing is claimed and nothing is let go.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from dm.clock import Clock
from dm.cluster.etcd import KeyChange
from dm.cluster.membership import Membership
from dm.cluster.ownership import SOURCE
from dm.cluster.placement import TURN_SECONDS, Candidate, placed
from dm.errors import DMError
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor
from dm.worker.taking_up import TakingUp

WISHES: Final = "wish/"
_AGAIN_SECONDS: Final = 1.0


class Holdings:
    """The sources of one member."""

    def __init__(
        self, membership: Membership, taking_up: TakingUp, loop: Loop, supervisor: Supervisor, clock: Clock
    ) -> None:
        self._membership = membership
        self._taking_up = taking_up
        self._loop = loop
        self._supervisor = supervisor
        self._clock = clock
        self._lock = threading.Lock()  # a source changes hands here one at a time
        self._woken = threading.Event()
        self._ended = threading.Event()
        self._taken: Callable[[Sequence[str]], None] = lambda _: None
        self._orphans: dict[str, float] = {}  # since when a source has no owner, as far as is known here
        self._thread = threading.Thread(target=self._work, name="holdings", daemon=True)
        self._log = structlog.get_logger()

    def begin(self) -> None:
        """Look, and go on looking."""
        self._membership.tell(self.wake)
        self._thread.start()

    def end(self) -> None:
        """Claim no more; what runs stays."""
        self._ended.set()
        self._woken.set()
        if self._thread.ident is not None:
            self._thread.join()

    def tell(self, taken: Callable[[Sequence[str]], None]) -> None:
        """Tell of sources that run here from now on; what is told must not wait for a server."""
        self._taken = taken

    def wake(self) -> None:
        """Look again; from any thread."""
        self._woken.set()

    def _work(self) -> None:
        wait: float | None = 0.0
        while not self._ended.is_set():
            if wait is None:
                self._woken.wait()
            else:
                self._clock.wait(self._woken, wait)
            self._woken.clear()
            if self._ended.is_set():
                return
            try:
                with self._lock:
                    wait = self.look()
            except DMError as error:
                self._log.warning("holdings", error=error)
                wait = _AGAIN_SECONDS
            except Exception:  # one defect must not end this; the log is where it is read
                self._log.exception("holdings")
                wait = _AGAIN_SECONDS

    def look(self) -> float | None:
        """Do what the rules say; gives the seconds after which to look again unless woken. Raises DMError."""
        membership = self._membership
        if membership.mirror.lost or not membership.lease.alive:
            return None  # the lease's thread wakes this one
        if not membership.members.joined:
            membership.members.join()
        self._taking_up.know()
        sources = self._supervisor.registry.sources()
        owners = membership.ownership.owners(SOURCE)
        running = self._loop.call(lambda: {name for name, one in self._supervisor.sources.items() if one.here})
        for source in sorted(running & sources.keys()):
            self._keep(source, owners.get(source))
        mine = sorted(name for name, owner in owners.items() if owner == membership.name)
        for source in mine:
            if source not in sources:
                membership.ownership.release(SOURCE, source)
        self._take([name for name in mine if name in sources and name not in running and self._claim(name)])
        return self._claim_orphans({name for name in sources if name not in owners and name not in running}, owners)

    def _keep(self, source: str, owner: str | None) -> None:
        """Of what runs here."""
        if owner not in (None, self._membership.name) or not self._membership.ownership.claim(SOURCE, source):
            self._log.warning("another member has the source", source=source, member=owner)
            self._taking_up.let_go(source)

    def _claim(self, source: str) -> bool:
        return self._membership.ownership.claim(SOURCE, source)

    def _take(self, sources: Sequence[str]) -> None:
        if sources:
            self._log.info("sources are this member's", sources=[*sources])
            self._taking_up.take_up(sources)
            self._taken(sources)

    def _claim_orphans(self, orphans: set[str], owners: Mapping[str, str]) -> float | None:
        now = self._clock.monotonic()
        self._orphans = {name: self._orphans.get(name, now) for name in orphans}
        subtasks = Counter(source for _, source in self._supervisor.registry.subtasks())
        turns = placed({name: subtasks[name] for name in orphans}, self._candidates(owners, subtasks), self.wishes())
        waits: list[float] = []
        claimed: list[str] = []
        for source in sorted(orphans):
            mine = turns[source].index(self._membership.name) if self._membership.name in turns[source] else 0
            left = self._orphans[source] + mine * TURN_SECONDS - now
            if left > 0:
                waits.append(left)
            elif self._claim(source):
                claimed.append(source)
        self._take(claimed)
        return min(waits, default=None)

    def _candidates(self, owners: Mapping[str, str], subtasks: Mapping[str, int]) -> list[Candidate]:
        had: dict[str, list[str]] = {}
        for source, owner in owners.items():
            had.setdefault(owner, []).append(source)
        return [
            Candidate(
                name,
                member.labels,
                sum(subtasks.get(source, 0) for source in had.get(name, ())),
                len(had.get(name, ())),
            )
            for name, member in self._membership.members.living().items()
        ]

    def wishes(self) -> dict[str, str]:
        """By source, the member or label that a person wished it to be at."""
        return {name: entry.value for name, entry in self._membership.mirror.below(WISHES).items()}

    def wish(self, source: str, wish: str) -> None:
        """Note where a source is to be; empty: anywhere, whatever was wished before. Raises DMError."""
        if wish or source in self.wishes():
            self._membership.mirror.write({}, [KeyChange(f"{WISHES}{source}", wish or None)])

    def hand_over(self, source: str, member: str) -> None:
        """Bring a source to rest here, for a member to claim it; raises DMError."""
        with self._lock:
            self._membership.demand_owned(source)
            self.wish(source, member)
            self._taking_up.let_go(source)
            self._membership.ownership.release(SOURCE, source)
