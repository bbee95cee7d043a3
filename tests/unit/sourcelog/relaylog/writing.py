"""Relay files written by the relay's own writer from events made by hand."""

from __future__ import annotations

from pathlib import Path

from dm.clock import Clock, SystemClock
from dm.sourcelog.relaylog.layout import RelayDirectory
from dm.sourcelog.relaylog.recovery import recover
from dm.sourcelog.relaylog.writer import Durability, RelayWriter
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    SERVER,
    format_description,
    placed,
    placed_without_checksums,
    previous_gtids,
)

FIRST, SECOND, THIRD = "mysql-bin.000001", "mysql-bin.000002", "mysql-bin.000003"


def write(
    writer: RelayWriter,
    file: str,
    events: list[bytes],
    *,
    at: int = 4,
    checksums: bool = True,
    ready: list[bytes] | None = None,
) -> int:
    """Hand a file's events (or `ready` ones, placed already) to the writer; the end of the last one."""
    writer.announce(file, at)
    if ready is None:
        ready = (placed if checksums else placed_without_checksums)(events, at)
    for data in ready:
        at += len(data)
        writer.append(data, at)
    writer.flush()
    return at


def new_writer(
    root: Path,
    uuid: str = SERVER,
    *,
    buffer: int = 1 << 20,
    clock: Clock | None = None,
    durability: Durability | None = None,
    resume: bool = False,
) -> RelayWriter:
    """A writer in a new sub-directory, or in the newest one from where recovery says."""
    directory = RelayDirectory(root)
    sub = directory.last() if resume else directory.add(uuid)
    assert sub is not None
    recovered = recover(sub, "mysql") if resume else None
    writer = RelayWriter(sub, "mysql", clock or SystemClock(), buffer=buffer, durability=durability)
    if recovered is not None:
        writer.resume(recovered.file, recovered.index)
    return writer


def head(known: int = 0) -> list[bytes]:
    return [format_description(), previous_gtids(known)]
