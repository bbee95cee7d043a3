"""The members of a cluster: those that live, and those that have been here.

`member/<name>` is bound to the member's lease and says that it lives. `known/<name>` stays, so that `list-member` shows
a member that is gone until `offline-member` strikes it out.

A name belongs to one home. Two daemons with one name would each take the other's claims for their own, so the second is
refused as long as the first lives. A member that was killed may be back before its old lease ends: it is known by the
number of its home, and what is bound to the old lease is bound to the new one instead.

**Stored formats.** Members read what others have stored, in etcd and at the target. So all that live have the same
numbers of formats (dm/stored_format.py), whatever their versions. A newer format comes into a cluster when all members
are at rest: the first one that starts brings it, and older programs are refused from then on. For that the key
`formats` has the formats of the last member that has joined. Each join writes it, and expects what it has compared: of
two members that join at once, the second compares with the first.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final

from dm.cluster.etcd import Entry, KeyChange
from dm.cluster.lease import Lease
from dm.cluster.mirror import Mirror
from dm.errors import DMError
from dm.stored_format import FORMATS

MEMBERS: Final = "member/"
KNOWN: Final = "known/"
FORMATS_KEY: Final = "formats"


def own_formats() -> dict[str, int]:
    """The formats that this program writes."""
    return {each.what: each.number for each in FORMATS}


@dataclass(frozen=True, slots=True)
class ClusterMember:
    """A member as it shows itself."""

    name: str
    address: str  # of its API, as host:port
    home: str  # a number of its $DM_HOME, which no other has
    version: str
    labels: Mapping[str, str] = field(default_factory=dict)
    formats: Mapping[str, int] = field(default_factory=own_formats)

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> ClusterMember:
        """From what is stored; keys of a newer program are left out."""
        found = json.loads(text)
        return cls(**{name: found[name] for name in cls.__dataclass_fields__ if name in found})


@dataclass(frozen=True, slots=True)
class ClusterRecord:
    """The key `cluster`: written once, by `dmctl cluster init` or `import`."""

    number: str  # what tells this cluster from others
    token: str = field(repr=False)  # what members show each other

    @classmethod
    def new(cls) -> ClusterRecord:
        """Of a cluster that does not exist yet."""
        return cls(secrets.token_hex(8), secrets.token_urlsafe(32))

    def text(self) -> str:
        """As it is stored."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def read(cls, text: str) -> ClusterRecord:
        """From what is stored."""
        found = json.loads(text)
        return cls(found["number"], found["token"])


class Members:
    """Who is in the cluster; any thread may ask."""

    def __init__(self, mirror: Mirror, lease: Lease, me: ClusterMember) -> None:
        self._mirror = mirror
        self._lease = lease
        self.me = me

    def living(self) -> dict[str, ClusterMember]:
        """Those with a lease, by name."""
        return {name: ClusterMember.read(entry.value) for name, entry in self._mirror.below(MEMBERS).items()}

    def known(self) -> dict[str, ClusterMember]:
        """All that have been here and were not struck out."""
        return {name: ClusterMember.read(entry.value) for name, entry in self._mirror.below(KNOWN).items()}

    def join(self) -> None:
        """Be a member from now on, under the lease as it is now; raises DMError."""
        me, key = self.me, f"{MEMBERS}{self.me.name}"
        changes = [
            KeyChange(key, me.text(), self._lease.number),
            KeyChange(f"{KNOWN}{me.name}", me.text()),
            KeyChange(FORMATS_KEY, me.text()),
        ]
        while True:  # until nobody else has joined meanwhile
            expected = {each: self._mirror.revision(each) for each in (key, FORMATS_KEY)}
            self._demand_formats()
            self._demand_name()
            if self._mirror.write(expected, changes):
                return
            if self._mirror.revision(key) != expected[key]:
                raise DMError("member-exists", member=me.name, address=_address(self._mirror.get(key)))

    def _demand_formats(self) -> None:
        """Raise DMError where members that live store in other formats, or those of before in newer ones."""
        me = self.me
        for other in self.living().values():
            if other.formats != me.formats and other.name != me.name:
                raise DMError("member-of-other-formats", member=other.name, version=other.version, **_told(other, me))
        if (found := self._mirror.get(FORMATS_KEY)) is not None:
            last = ClusterMember.read(found.value)
            if any(number > me.formats.get(what, 0) for what, number in last.formats.items()):
                raise DMError("member-of-other-formats", member=last.name, version=last.version, **_told(last, me))

    def _demand_name(self) -> None:
        """Raise DMError where a member of this name lives that has another home."""
        me = self.me
        there = self._mirror.get(f"{MEMBERS}{me.name}")
        if there is not None and (living := ClusterMember.read(there.value)).home != me.home:
            raise DMError("member-exists", member=me.name, address=living.address)

    @property
    def joined(self) -> bool:
        """Whether others see this member, under the lease as it is now."""
        found = self._mirror.get(f"{MEMBERS}{self.me.name}")
        return found is not None and found.lease == self._lease.number

    def strike_out(self, name: str) -> None:
        """Forget a member that is gone; raises DMError."""
        if name in self.living():
            raise DMError("member-online", member=name)
        if name not in self.known():
            raise DMError("member-unknown", member=name, there=", ".join(sorted(self.known())) or "none")
        if not self._mirror.write({f"{MEMBERS}{name}": 0}, [KeyChange(f"{KNOWN}{name}", None)]):
            raise DMError("member-online", member=name)  # it has come back meanwhile


def _told(other: ClusterMember, me: ClusterMember) -> dict[str, str]:
    differing = sorted(
        what for what in {*other.formats, *me.formats} if other.formats.get(what) != me.formats.get(what)
    )
    return {
        "formats": "; ".join(
            f"{each}: {other.formats.get(each)} there, {me.formats.get(each)} here" for each in differing
        )
    }


def _address(there: Entry | None) -> str:
    return "unknown" if there is None else ClusterMember.read(there.value).address
