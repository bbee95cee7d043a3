"""What a reader of the feed asks for, and what is known of the relay and its tables from that."""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect, flavor_named
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog.layout import RelayDirectory, is_binlog_name
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from dm.sourcelog.relaylog.scan import scan
from dm.sourcelog.stream.prepared import UndecidedXa
from dm.sourcelog.stream.source_log import SourceLog, Space
from dm.sourcelog.stream.transaction import SourceTransaction
from dm.text import is_decimal
from dm.tools import lake

_BATCH_BYTES: Final = 256 << 20
_TASK_BYTES: Final = 32 << 20
_MEMORY_BYTES: Final = 64 << 20


@dataclass(frozen=True, slots=True)
class FeedOptions:
    """The options of the format, understood."""

    relay: Path
    flavor: Flavor
    structures: Mapping[TableName, TableSchema]
    start: str  # `earliest`, `latest` or FILE:OFFSET; empty: where the dump ends, else `earliest`
    point: Position | None  # of the dump
    batch_bytes: int = _BATCH_BYTES  # of the relay, at most in one micro-batch
    task_bytes: int = _TASK_BYTES  # of it, at most in one task
    memory_bytes: int = _MEMORY_BYTES  # for a transaction; more of it waits on disk, but an event must fit

    @classmethod
    def of(cls, options: Mapping[str, str]) -> FeedOptions:
        """Read Spark's options; raises DMError."""
        relay = Path(_needed(options, "path"))
        subs = RelayDirectory(relay).sub_directories()
        if not subs:
            raise DMError("feed-without-relay", directory=relay)
        flavor = subs[-1].flavor
        name, point = _needed(options, "table"), None
        if "dump" in options:
            schema, point = lake.structure(options["dump"], name)
        elif "structure" in options:
            schema = parse_create_table(options["structure"], _context(flavor, name))
        else:
            raise DMError("feed-option", option="dump", what="nothing tells the table's structure")
        start = options.get("start", "")
        if start not in ("", "earliest", "latest") and not _is_place(start):
            raise DMError("feed-option", option="start", what=f"{start!r} is no place")
        defaults = {"batchBytes": _BATCH_BYTES, "taskBytes": _TASK_BYTES, "memoryBytes": _MEMORY_BYTES}
        sizes = [_bytes(options, *each) for each in defaults.items()]
        return cls(relay.absolute(), flavor, {schema.name: schema}, start, point, *sizes)

    def transactions(self, start: Position, xa: UndecidedXa) -> Iterator[SourceTransaction]:
        """Everything after `start` that is there; each is valid until the next is asked for."""
        # Only the server knows whether MariaDB's numbers are in order; without that, only places count.
        ordered = not dialect(self.flavor).gtids_have_domains
        events, wanted = RelayEventSource(self.relay, self.flavor), self.structures.__contains__
        log = SourceLog(events, wanted, xa, gtids_ordered=ordered)
        with tempfile.TemporaryDirectory(prefix="dm-feed-") as scratch:
            yield from log.transactions(start, Space(self.memory_bytes, Path(scratch)), threading.Event())

    def first(self) -> Position:
        """Where a query begins that has no checkpoint; raises DMError."""
        subs = RelayDirectory(self.relay).sub_directories()
        if self.start == "latest":
            for sub in reversed(subs):
                for name in reversed(sub.files()):
                    found = scan(sub.file(name), sub.idx(name), self.flavor)
                    if found is not None:
                        return Position(sub.server_uuid, name, found.index.complete, found.index.gtids)
        source = RelayEventSource(self.relay, self.flavor)
        if _is_place(self.start):
            file, _, offset = self.start.rpartition(":")
            return source.complete(Position("", file, int(offset), GtidSet.empty(self.flavor)))
        if not self.start and self.point is not None:
            return source.complete(self.point)
        for sub in subs:
            for name in sub.files()[:1]:
                return source.complete(Position(sub.server_uuid, name, MAGIC_SIZE, GtidSet.empty(self.flavor)))
        raise DMError("feed-without-relay", directory=self.relay)


def offset_of(position: Position) -> dict[str, str | int]:
    """A position as Spark keeps it in a checkpoint."""
    return {
        "server": position.server_uuid, "file": position.file, "offset": position.offset,
        "gtid": str(position.gtid_set), "flavor": position.flavor,
    }  # fmt: skip


def position_of(offset: Mapping[str, str | int]) -> Position:
    """The inverse."""
    flavor = flavor_named(offset["flavor"])
    gtids = GtidSet.parse(str(offset["gtid"]), flavor) if offset["gtid"] else GtidSet.empty(flavor)
    return Position(str(offset["server"]), str(offset["file"]), int(offset["offset"]), gtids)


def _is_place(text: str) -> bool:
    file, _, offset = text.rpartition(":")
    return is_binlog_name(file) and is_decimal(offset)


def _needed(options: Mapping[str, str], name: str) -> str:
    if not options.get(name):
        raise DMError("feed-option", option=name, what="it is not given")
    return options[name]


def _bytes(options: Mapping[str, str], name: str, default: int) -> int:
    text = options.get(name, str(default))
    if not is_decimal(text) or not int(text):
        raise DMError("feed-option", option=name, what=f"{text!r} is no number of bytes")
    return int(text)


def _context(flavor: Flavor, name: str) -> SourceContext:
    schema, _, table = name.partition(".")
    if not table:
        raise DMError("feed-option", option="table", what=f"{name!r} is not `schema.table`")
    return SourceContext(flavor, dialect(flavor).newest, schema)
