"""One host's place in a cluster: it joins, is seen as long as it lives, and leaves.

**Which cluster.** The key `cluster` has a number, and the member's home remembers it. So a host that was given another
cluster's prefix by mistake is refused. A home that knows a cluster and finds none has an etcd that lost its data: it is
refused, too. An empty registry beside tasks that run would look as if nobody wanted them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from dm.atomic_file import write_atomically
from dm.clock import Clock
from dm.cluster.etcd import Etcd
from dm.cluster.etcd_access import EtcdAccess
from dm.cluster.lease import Lease
from dm.cluster.members import ClusterMember, ClusterRecord, Members
from dm.cluster.mirror import CLUSTER_KEY, Mirror
from dm.cluster.ownership import SOURCE, Ownership
from dm.errors import DMError


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """What a member is told at its start."""

    access: EtcdAccess
    prefix: str
    name: str
    address: str  # at which other members reach its API, as host:port
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HomeMark:
    """What a member's home remembers: its own number, and that of the cluster that it has joined."""

    home: str
    cluster: str

    @classmethod
    def read(cls, file: Path) -> HomeMark:
        """From the file; a new home has a new number and no cluster. Raises DMError."""
        try:
            said = json.loads(file.read_text(encoding="utf-8"))
            return cls(str(said["home"]), str(said["cluster"]))
        except FileNotFoundError:
            return cls(secrets.token_hex(8), "")
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DMError("file-unreadable", file=file, cause=str(error)) from error

    def write(self, file: Path) -> None:
        """Keep it."""
        write_atomically(file, json.dumps({"home": self.home, "cluster": self.cluster}).encode(), durable=True)


class Membership:
    """This host in its cluster; any thread may ask."""

    def __init__(self, options: ClusterOptions, mark_file: Path, version: str, clock: Clock) -> None:
        options.access.demand_private()
        self._options = options
        self._mark_file = mark_file
        self._mark = HomeMark.read(mark_file)
        self._told: Callable[[], None] = lambda: None
        self._log = structlog.get_logger()
        me = ClusterMember(options.name, options.address, self._mark.home, version, dict(options.labels))
        self.etcd = Etcd(options.access, clock)
        self.mirror = Mirror(self.etcd, options.prefix, clock)
        self.lease = Lease(self.etcd, clock, self._tell)
        self.ownership = Ownership(self.mirror, self.lease, me.name)
        self.members = Members(self.mirror, self.lease, me)

    @property
    def name(self) -> str:
        """What this member is called."""
        return self._options.name

    @property
    def is_known(self) -> bool:
        """Whether this home has joined a cluster before."""
        return bool(self._mark.cluster)

    @property
    def record(self) -> ClusterRecord:
        """Of the cluster."""
        found = self.mirror.get(CLUSTER_KEY)
        assert found is not None  # or `join` would have raised
        return ClusterRecord.read(found.value)

    def join(self) -> None:
        """Be a member; raises DMError."""
        self.mirror.begin()
        there = self.mirror.get(CLUSTER_KEY)
        known, prefix = self._mark.cluster, self._options.prefix
        if there is None:
            raise DMError("etcd-lost-data") if known else DMError("cluster-not-there", prefix=prefix)
        number = ClusterRecord.read(there.value).number
        if known not in ("", number):
            home = self._mark_file.parent
            raise DMError("cluster-is-another", prefix=prefix, number=number, home=home, known=known)
        self.lease.begin()
        self.members.join()
        HomeMark(self._mark.home, number).write(self._mark_file)
        self.mirror.tell(lambda _: self._told())

    def tell(self, told: Callable[[], None]) -> None:
        """Tell of every change of what is known, and of the lease, from now on."""
        self._told = told

    def _tell(self) -> None:
        self._told()

    def leave(self) -> None:
        """Give up everything at once; others take it over."""
        self.mirror.end()
        if self.lease.number:
            self.lease.end()
        self.etcd.close()

    def owns_source(self, source: str) -> bool | None:
        """Whether a source is this member's; None where nobody can say, as without etcd."""
        if self.ownership.mine(SOURCE, source):
            return True
        owner = self.ownership.owner(SOURCE, source)
        return None if owner in (None, self.name) or not self.lease.alive else False

    def demand_owned(self, source: str) -> None:
        """Raise DMError unless the source is this member's for sure."""
        if self.ownership.mine(SOURCE, source):
            return
        self.mirror.demand_kept()
        if self.etcd.trouble:
            raise DMError("etcd-unreachable", problem=self.etcd.trouble)
        owner = self.ownership.owner(SOURCE, source)
        if owner in (None, self.name):
            raise DMError("source-without-owner", sources=source)
        raise DMError("source-elsewhere", source=source, member=owner)
