"""Global transaction identifiers of MySQL and MariaDB, and sets of them.

The two flavours mean different things by "a set". MySQL's is a true set of integers per (server uuid, tag); MariaDB's
is a position: one sequence number per domain, everything at or below it belongs to it. Both answer the one question the
replicator asks, "was this transaction already processed?", and both know union and difference, so the callers never
look inside. Sets are immutable: a position that was written somewhere can not change after its owner's back.

**What a set proves.** A set tells which transactions *with GTIDs* were read. MySQL also writes transactions without one
(`gtid_mode` other than ON), and sets don't change by these: two places with equal sets may have any number of them in
between. So a set proves that nothing is missing only where every transaction in question has a GTID, and whoever takes
it as a proof asks for that here:

- After a transaction without a GTID the set of a place is `anonymous` until the next transaction that has one. It is
  still true, but nobody can tell from it whether another server has what was read. Its text ends with ANONYMOUS, so
  this survives wherever a position is stored. An empty set proves nothing anyway, and stays empty.
- A file that begins where a set ends (`before` is the set) does not prove that it continues the set: transactions
  without GTIDs may end the file before it. A file that begins *inside* of the set does (`reaches_into`): replicas
  commit in their source's order, so what precedes a transaction that was read was read as well.
- Files of one server are never compared by sets: their numbers tell more (`dm.sourcelog.relaylog.recovery`).
- MariaDB gives every transaction a GTID. But its numbers have an order only in strict mode (`Gtid.ordered`).

Text forms: MySQL Reference Manual, "GTID Format and Storage" (tags since 8.3); MariaDB documentation, "Global
Transaction ID".

The binary form of a MySQL GTID set in COM_BINLOG_DUMP_GTID.

mysql-replication encodes plain sets but can't even read a set with tags (MySQL 8.3 and later). So this module writes
both forms, and the tests compare the plain form with the library's. The layout follows the server's
`Gtid_set::binary_form`. It begins with eight bytes for the number of sources; in a tagged set the format number 1 is in
the first and the last of these bytes. Then, per source, come the 16 bytes of its uuid, in the tagged form the tag as a
variable-length integer and text, and the intervals as half-open pairs of 64-bit numbers.
"""

from __future__ import annotations

import operator
import re
import struct
from bisect import bisect_right
from typing import Final, NamedTuple
from uuid import UUID

from dm.mysql.dialect import Flavor
from dm.text import is_decimal

_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_TAG = re.compile(r"[a-z_][a-z0-9_]{0,31}")
_MARIADB = re.compile(r"([0-9]{1,10})-([0-9]{1,10})-([0-9]{1,20})")
_ANONYMOUS = "ANONYMOUS"  # MySQL's word for a transaction without a GTID (its gtid_next)

Interval = tuple[int, int]  # first and last number, both included
Intervals = tuple[Interval, ...]


class GtidFormatError(ValueError):
    """Raised when a text is not a GTID or a GTID set of the expected flavour."""


class Gtid(NamedTuple):
    """One transaction's identifier; a tuple, because one is made for every transaction of the source."""

    flavor: Flavor
    source: str  # mysql: uuid or uuid:tag; mariadb: domain id
    number: int
    server_id: int = 0  # mariadb only
    ordered: bool = True  # False: from a MariaDB server that does not keep numbers in order (gtid_strict_mode=OFF)

    def __str__(self) -> str:
        if self.flavor == "mariadb":
            return f"{self.source}-{self.server_id}-{self.number}"
        return f"{self.source}:{self.number}"

    @classmethod
    def parse(cls, text: str) -> Gtid:
        """Read one GTID of either flavour."""
        text = text.strip()
        mariadb = _MARIADB.fullmatch(text)
        if mariadb:
            return cls("mariadb", str(int(mariadb[1])), int(mariadb[3]), int(mariadb[2]))
        source, _, number = text.rpartition(":")
        uuid, _, tag = source.lower().partition(":")
        if not _UUID.fullmatch(uuid) or (tag and not _TAG.fullmatch(tag)) or not is_decimal(number):
            raise GtidFormatError(f"not a GTID: {text!r}")
        return cls("mysql", f"{uuid}:{tag}" if tag else uuid, int(number))


_first: Final = operator.itemgetter(0)


def _merge(intervals: list[Interval]) -> Intervals:
    merged: list[Interval] = []
    for first, last in sorted(intervals):
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return tuple(merged)


def _cut(ours: Intervals, theirs: Intervals) -> Intervals:
    """The numbers of `ours` that are not in `theirs`; one pass over both, which are in order."""
    left: list[Interval] = []
    at = 0  # what is before this in `theirs` ends before what is left of `ours`
    for start, last in ours:
        first = start
        while at < len(theirs) and theirs[at][0] <= last:
            other_first, other_last = theirs[at]
            if other_first > first:
                left.append((first, other_first - 1))
            first = max(first, other_last + 1)
            if other_last > last:
                break  # it may reach into the next one of ours
            at += 1
        if first <= last:
            left.append((first, last))
    return tuple(left)


class GtidSet:
    """An immutable set of GTIDs of one flavour; the empty set belongs to both."""

    __slots__ = ("_mariadb", "_mysql", "anonymous", "flavor")

    def __init__(
        self,
        flavor: Flavor,
        mysql: dict[str, Intervals] | None = None,
        mariadb: dict[str, tuple[int, int]] | None = None,
        *,
        anonymous: bool = False,
    ) -> None:
        self.flavor: Flavor = flavor
        self._mysql = mysql or {}  # "uuid" or "uuid:tag" -> intervals
        self._mariadb = mariadb or {}  # domain -> (server id, sequence number)
        self.anonymous = anonymous  # transactions without a GTID follow its last one: it tells nothing of them

    @classmethod
    def empty(cls, flavor: Flavor = "mysql") -> GtidSet:
        """The set without members."""
        return cls(flavor)

    @classmethod
    def parse(cls, text: str, flavor: Flavor | None = None) -> GtidSet:
        """Read a set as the servers print it; raises GtidFormatError."""
        parts = [part.strip() for part in text.replace("\n", "").split(",")]
        parts = [part for part in parts if part]
        if not parts:
            return cls(flavor or "mysql")
        if flavor is None:
            flavor = "mariadb" if _MARIADB.fullmatch(parts[0]) else "mysql"
        if flavor == "mariadb":
            return cls._parse_mariadb(parts)
        named = [part for part in parts if part.upper() != _ANONYMOUS]
        found = cls._parse_mysql(named)
        found.anonymous = len(named) < len(parts)
        return found

    @classmethod
    def _parse_mariadb(cls, parts: list[str]) -> GtidSet:
        domains: dict[str, tuple[int, int]] = {}
        for part in parts:
            match = _MARIADB.fullmatch(part)
            if not match:
                raise GtidFormatError(f"not a MariaDB GTID: {part!r}")
            domain = str(int(match[1]))
            if domain not in domains or domains[domain][1] < int(match[3]):
                domains[domain] = (int(match[2]), int(match[3]))
        return cls("mariadb", mariadb=domains)

    @classmethod
    def _parse_mysql(cls, parts: list[str]) -> GtidSet:
        collected: dict[str, list[Interval]] = {}
        for part in parts:
            uuid, *fields = [field.strip().lower() for field in part.split(":")]
            if not _UUID.fullmatch(uuid) or not fields:
                raise GtidFormatError(f"not a MySQL GTID set: {part!r}")
            source = uuid
            for field in fields:
                if _TAG.fullmatch(field):
                    source = f"{uuid}:{field}"
                    continue
                first, dash, last = field.partition("-")
                if not is_decimal(first) or (dash and not is_decimal(last)):
                    raise GtidFormatError(f"not a GTID interval: {field!r} in {part!r}")
                if int(first) == 0 and not dash:  # how DM's files write "nothing of this server yet"
                    continue
                interval = (int(first), int(last) if dash else int(first))
                if interval[0] < 1:
                    raise GtidFormatError(f"GTID numbers start at 1: {field!r} in {part!r}")
                if interval[0] <= interval[1]:
                    collected.setdefault(source, []).append(interval)
        return cls("mysql", mysql={source: _merge(found) for source, found in collected.items()})

    def __contains__(self, gtid: Gtid) -> bool:
        if gtid.flavor == "mariadb":
            return gtid.number <= self._mariadb.get(gtid.source, (0, 0))[1]
        intervals, number = self._mysql.get(gtid.source), gtid.number
        if not intervals or number > intervals[-1][1]:  # nearly always, while a stream is read in its order
            return False
        at = bisect_right(intervals, number, key=_first)
        return at > 0 and number <= intervals[at - 1][1]

    def __bool__(self) -> bool:
        return bool(self._mysql or self._mariadb)

    @property
    def sources(self) -> int:
        """From how many servers and tags, or domains, it has members."""
        return len(self._mysql) + len(self._mariadb)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GtidSet):
            return NotImplemented
        ours = {domain: at[1] for domain, at in self._mariadb.items()}
        theirs = {domain: at[1] for domain, at in other._mariadb.items()}
        return self._mysql == other._mysql and ours == theirs and self.anonymous == other.anonymous

    def __hash__(self) -> int:
        return hash(str(self))

    def __ge__(self, other: GtidSet) -> bool:
        """Whether every member of `other` is a member of this set."""
        return not (other - self)

    @property
    def named(self) -> GtidSet:
        """Its members, whatever follows them."""
        return GtidSet(self.flavor, self._mysql, self._mariadb) if self.anonymous else self

    def then_anonymous(self) -> GtidSet:
        """This set after one more transaction, which has no GTID."""
        if self.anonymous or not self or self.flavor == "mariadb":
            return self
        return GtidSet("mysql", self._mysql, anonymous=True)

    def reaches_into(self, before: GtidSet) -> bool:
        """Whether a file with these preceding GTIDs begins inside of the set: from there on nothing is missed."""
        if self.anonymous or (before and before.flavor != self.flavor) or not self >= before:
            return False
        return self.flavor == "mariadb" or not before >= self

    def __or__(self, other: GtidSet) -> GtidSet:
        if not other and not other.anonymous:
            return self
        if not self and not self.anonymous:
            return other
        self._same_flavor(other)
        if self.flavor == "mariadb":
            domains = dict(self._mariadb)
            for domain, at in other._mariadb.items():
                if at[1] > domains.get(domain, (0, -1))[1]:
                    domains[domain] = at
            return GtidSet("mariadb", mariadb=domains)
        sources = dict(self._mysql)
        for source, intervals in other._mysql.items():
            sources[source] = _merge([*sources.get(source, ()), *intervals])
        return GtidSet("mysql", mysql=sources, anonymous=self.anonymous or other.anonymous)

    def __sub__(self, other: GtidSet) -> GtidSet:
        if not other or not self:
            return self
        self._same_flavor(other)
        if self.flavor == "mariadb":
            theirs = other._mariadb
            left = {domain: at for domain, at in self._mariadb.items() if at[1] > theirs.get(domain, (0, -1))[1]}
            return GtidSet("mariadb", mariadb=left)
        sources = {source: _cut(intervals, other._mysql.get(source, ())) for source, intervals in self._mysql.items()}
        sources = {source: intervals for source, intervals in sources.items() if intervals}
        return GtidSet("mysql", mysql=sources, anonymous=self.anonymous)

    def with_gtid(self, gtid: Gtid) -> GtidSet:
        """This set with one more member; cheap when the number follows the last one."""
        if gtid.flavor == "mariadb":
            if gtid.ordered and gtid in self:
                return self
            return GtidSet("mariadb", mariadb={**self._mariadb, gtid.source: (gtid.server_id, gtid.number)})
        intervals = self._mysql.get(gtid.source, ())
        if intervals and intervals[-1][1] + 1 == gtid.number:
            grown: Intervals = (*intervals[:-1], (intervals[-1][0], gtid.number))
        else:
            grown = _merge([*intervals, (gtid.number, gtid.number)])
        return GtidSet("mysql", mysql={**self._mysql, gtid.source: grown})

    def ends_before(self, gtid: Gtid) -> bool:
        """Whether it has neither this member nor a later one of the same server, or domain."""
        if gtid.flavor == "mariadb":
            return gtid.number > self._mariadb.get(gtid.source, (0, 0))[1]
        intervals = self._mysql.get(gtid.source)
        return not intervals or gtid.number > intervals[-1][1]

    def with_run(self, first: Gtid, last: int) -> GtidSet:
        """This set, which `ends_before` the first, with all up to the number of the last."""
        if first.flavor == "mariadb":
            return GtidSet("mariadb", mariadb={**self._mariadb, first.source: (first.server_id, last)})
        intervals = self._mysql.get(first.source, ())
        if intervals and intervals[-1][1] + 1 == first.number:
            grown: Intervals = (*intervals[:-1], (intervals[-1][0], last))
        else:
            grown = (*intervals, (first.number, last))
        return GtidSet("mysql", mysql={**self._mysql, first.source: grown})

    def _same_flavor(self, other: GtidSet) -> None:
        if self.flavor != other.flavor:
            raise GtidFormatError(f"a {self.flavor} GTID set and a {other.flavor} GTID set have nothing in common")

    def __str__(self) -> str:
        if self.flavor == "mariadb":
            ordered = sorted(self._mariadb.items(), key=lambda item: int(item[0]))
            return ",".join(f"{domain}-{server}-{number}" for domain, (server, number) in ordered)
        by_uuid: dict[str, list[str]] = {}
        for source, intervals in sorted(self._mysql.items()):
            uuid, _, tag = source.partition(":")
            fields = by_uuid.setdefault(uuid, [])
            if tag:
                fields.append(tag)
            fields.extend(str(first) if first == last else f"{first}-{last}" for first, last in intervals)
        texts = [f"{uuid}:{':'.join(fields)}" for uuid, fields in by_uuid.items()]
        return ",".join([*texts, _ANONYMOUS] if self.anonymous else texts)

    def __repr__(self) -> str:
        return f"GtidSet({str(self)!r})"


Sources = dict[tuple[str, str], list[tuple[int, int]]]


def intervals_by_source(gtid_set: GtidSet) -> Sources:
    """(uuid, tag) -> intervals with both ends included, from the set's text form."""
    found: Sources = {}
    for part in filter(None, str(gtid_set).split(",")):
        name, *fields = part.split(":")
        tag = ""
        for field in fields:
            if is_decimal(field[0]):
                first, _, last = field.partition("-")
                found.setdefault((name, tag), []).append((int(first), int(last or first)))
            else:
                tag = field
    return found


def binary_form(gtid_set: GtidSet) -> bytes:
    """The bytes for the server; plain if the set has no tag, so that older servers understand them."""
    sources = intervals_by_source(gtid_set)
    tagged = any(tag for _, tag in sources)
    count = len(sources)
    parts = [struct.pack("<Q", (1 << 56) | (count << 8) | 1) if tagged else struct.pack("<Q", count)]
    for (name, tag), intervals in sources.items():
        parts.append(UUID(name).bytes)
        if tagged:
            # mysql::serialization's variable-length integer: one byte for values below 128, shifted left by one.
            parts.append(bytes([len(tag) << 1]) + tag.encode("ascii"))
        parts.append(struct.pack("<Q", len(intervals)))
        parts.extend(struct.pack("<QQ", first, last + 1) for first, last in intervals)
    return b"".join(parts)
