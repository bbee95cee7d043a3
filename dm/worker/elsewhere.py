"""What the subtasks of other members do: asked of their members when somebody looks at the page.

Looking must stay quick, whatever has become of a host. So all members are asked at once, for what their units have said
by themselves. One that does not answer within two seconds is not asked again for some seconds. Of its subtasks is shown
what was stored last, and how long ago it was heard.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Final, cast

from dm.clock import Clock
from dm.cluster.ownership import SOURCE
from dm.errors import DMError
from dm.verbs.status import ShowHeard
from dm.worker.registry import Registry, SubtaskRecord
from dm.worker.verb_work import OtherHosts

_PATIENCE_SECONDS: Final = 2.0
_SILENT_SECONDS: Final = 10.0

HeardSubtask = tuple[Mapping[str, Any], Mapping[str, Any]]  # DM's sourceStatus and subTaskStatus


@dataclass(frozen=True, slots=True)
class StoredSubtask:
    """A subtask whose member says nothing, or that none runs."""

    task: str
    source: str
    stage: str
    unit: str
    member: str  # empty: none runs it
    address: str
    heard: str  # of the member


class Elsewhere:
    """The other members, as a person looks at them; any thread may ask."""

    def __init__(self, others: OtherHosts, registry: Registry, clock: Clock) -> None:
        self._membership, self._forwarding = others.membership, others.forwarding
        self._registry = registry
        self._clock = clock
        self._lock = threading.Lock()
        self._silent_until: dict[str, float] = {}

    def look(self, task: str = "") -> tuple[list[HeardSubtask], list[StoredSubtask]]:
        """Of all tasks, or one: what is told, and what is only stored."""
        owners = self._membership.ownership.owners(SOURCE)
        wanted = {
            (name, source): seen
            for (name, source), seen in sorted(self._registry.subtasks().items())
            if task in ("", name) and owners.get(source) != self._membership.name
        }
        told = self._told(sorted({owners[source] for _, source in wanted if source in owners}))
        pairs, stored = list[HeardSubtask](), list[StoredSubtask]()
        for (name, source), seen in wanted.items():
            member = owners.get(source, "")
            pair = told.get(member, {}).get((name, source))
            if pair is not None:
                pairs.append(pair)
            else:
                stored.append(self._stored(name, source, seen, member))
        return pairs, stored

    def _told(self, members: Sequence[str]) -> dict[str, dict[tuple[str, str], HeardSubtask]]:
        if not members:
            return {}
        with ThreadPoolExecutor(len(members), thread_name_prefix="members") as threads:
            return dict(zip(members, threads.map(self._ask, members), strict=True))

    def _ask(self, member: str) -> dict[tuple[str, str], HeardSubtask]:
        now = self._clock.monotonic()
        with self._lock:
            if now < self._silent_until.get(member, now):
                return {}
        try:
            answer = self._forwarding.ask(member, ShowHeard(), _PATIENCE_SECONDS)
        except DMError:  # its subtasks are shown as stored, with the time since it was heard
            with self._lock:
                self._silent_until[member] = self._clock.monotonic() + _SILENT_SECONDS
            return {}
        lines = cast("list[dict[str, Any]]", answer["subtasks"])
        return {(one["subtask"]["name"], one["source"]["source"]): (one["source"], one["subtask"]) for one in lines}

    def _stored(self, task: str, source: str, seen: SubtaskRecord, member: str) -> StoredSubtask:
        known = self._membership.members.known()
        address = known[member].address if member in known else ""
        heard = self._forwarding.heard_of(member) if member else ""
        return StoredSubtask(task, source, seen.stage, seen.unit or "", member, address, heard)
