"""All keys of the cluster as this member knows them: read once, then kept by one watch.

Members ask the mirror, not etcd. So no task, source or status costs etcd a request, and what was known stays known
while etcd is gone.

A change of our own is in the mirror when `write` returns. The watch tells it again later, and older changes of the same
keys perhaps after it: so each key remembers the revision that it is of, a deleted one, too, and nothing older counts.

When a watch is in place, everything is read once more. So nothing that came between is missed, and it is seen whether
this is still the same etcd: one that has lost its data would let a watch of a later revision wait in silence.

**An etcd that lost its data**, or was given another's, is recognized by two things. Its revision went back, which it
never does by itself. Or the key `cluster`, written once, is not the one that this member has joined. Every transaction
compares its value, which has a random number, so none is made there. Then nothing is taken over from it (`lost`).

Listeners learn which keys have changed, and ask the mirror what they have now. So the order in which they are told does
not matter, and no lock is held meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import structlog

from dm.clock import Clock
from dm.cluster.etcd import Entry, Etcd, KeyChange, KeysFound
from dm.errors import DMError

_AGAIN_SECONDS: Final = 1.0

Told = Callable[[frozenset[str]], None]
"""Takes the keys that have changed; on the watch's thread, or on that of a writer."""

CLUSTER_KEY: Final = "cluster"


class Mirror:
    """The keys below a prefix; any thread may ask."""

    def __init__(self, etcd: Etcd, prefix: str, clock: Clock) -> None:
        self._etcd = etcd
        self._prefix = prefix
        self._clock = clock
        self._lock = threading.RLock()
        self._entries: dict[str, Entry] = {}
        self._revisions: dict[str, int] = {}  # of each key's last change that is known, deletions included
        self._read_up_to = 0
        self._seen = 0  # the last revision that a change of our own has made
        self._told: list[Told] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="watch", daemon=True)
        self._log = structlog.get_logger()
        self.lost = False  # etcd has lost what it had

    def begin(self) -> None:
        """Read everything, and follow; raises DMError."""
        self._take_over(self._etcd.read(self._prefix))
        self._thread.start()

    def end(self) -> None:
        """Follow no more."""
        self._stop.set()
        self._etcd.interrupt()
        if self._thread.ident is not None:
            self._thread.join()

    def tell(self, told: Told) -> None:
        """Tell of each change from now on."""
        self._told.append(told)

    def get(self, key: str) -> Entry | None:
        """What a key has; its prefix is left out here as everywhere."""
        with self._lock:
            return self._entries.get(key)

    def below(self, folder: str) -> dict[str, Entry]:
        """The keys of a folder, without its name."""
        with self._lock:
            return {key.removeprefix(folder): entry for key, entry in self._entries.items() if key.startswith(folder)}

    def revision(self, key: str) -> int:
        """Which revision has written a key; 0: it is not there."""
        with self._lock:
            found = self._entries.get(key)
            return 0 if found is None else found.revision

    def write(self, expected: Mapping[str, int], changes: Sequence[KeyChange]) -> int:
        """Change keys in one transaction if others are as expected (`Etcd.write`); raises DMError.

        Gives the transaction's revision. 0: somebody else was faster, and the mirror knows by then what the expected
        keys have.
        """
        self.demand_kept()
        joined = self.get(CLUSTER_KEY)
        revision = self._etcd.write(
            {self._prefix + key: at for key, at in expected.items()},
            [KeyChange(self._prefix + each.key, each.value, each.lease) for each in changes],
            {} if joined is None else {self._prefix + CLUSTER_KEY: joined.value},
        )
        if revision is None:
            self._read_again()
            self.demand_kept()
            return 0
        with self._lock:
            self._seen = max(self._seen, revision)
        made = [
            (each.key, None if each.value is None else Entry(each.value, revision, each.lease), revision)
            for each in changes
        ]
        self._apply(made)
        return revision

    def demand_kept(self) -> None:
        """Raise DMError for an etcd that has lost what it had."""
        if self.lost:
            raise DMError("etcd-lost-data")

    # what comes from etcd

    def _follow(self) -> None:
        told = False
        while not (self._stop.is_set() or self.lost):
            try:
                for batch in self._etcd.watch(self._prefix, self._read_up_to + 1, self._stop):
                    if batch.begins or batch.compacted:
                        self._read_again()
                    if batch.begins:
                        continue
                    if batch.compacted:
                        break
                    self._apply([(key.removeprefix(self._prefix), entry, at) for key, entry, at in batch.changes])
                    with self._lock:
                        self._read_up_to = max(self._read_up_to, *(at for _, _, at in batch.changes))
                    told = False
            except DMError as error:
                if not told:
                    self._log.warning("the watch is interrupted", error=error)
                told = True
                self._clock.wait(self._stop, _AGAIN_SECONDS)

    def _read_again(self) -> None:
        with self._lock:
            known = max(self._seen, self._read_up_to)  # before the read: the watch may get further meanwhile
        found = self._etcd.read(self._prefix)
        with self._lock:
            joined, there = self.get(CLUSTER_KEY), found.entries.get(self._prefix + CLUSTER_KEY)
            other = joined is not None and (there is None or there.value != joined.value)
            lost = other or found.revision < known
        if not lost:
            self._take_over(found)
        elif not self.lost:
            self.lost = True
            self._log.error("etcd has lost its data", error=DMError("etcd-lost-data"))
            self._say(frozenset())

    def _take_over(self, found: KeysFound) -> None:
        entries = {key.removeprefix(self._prefix): entry for key, entry in found.entries.items()}
        with self._lock:
            gone: list[tuple[str, Entry | None, int]] = [
                (key, None, found.revision) for key in self._entries if key not in entries
            ]
            self._read_up_to = max(self._read_up_to, found.revision)
        self._apply([*gone, *((key, entry, entry.revision) for key, entry in entries.items())])

    def _apply(self, changes: Sequence[tuple[str, Entry | None, int]]) -> None:
        """Of each key what is newer than what is known."""
        told: set[str] = set()
        with self._lock:
            for key, entry, revision in changes:
                if revision <= self._revisions.get(key, 0):
                    continue
                self._revisions[key] = revision
                if entry is None:
                    self._entries.pop(key, None)
                else:
                    self._entries[key] = entry
                told.add(key)
        if told:
            self._say(frozenset(told))

    def _say(self, keys: frozenset[str]) -> None:
        for tell in self._told:
            try:
                tell(keys)
            except Exception as error:  # the watch outlives a listener's defect, which the log has
                self._log.error("a listener of the cluster's keys has failed", error=error, exc_info=True)
