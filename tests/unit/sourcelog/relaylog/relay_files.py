"""Relay files made by hand, each with the index that the relay would have left."""

from __future__ import annotations

from pathlib import Path

from dm.sourcelog.relaylog.index import write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory
from dm.sourcelog.relaylog.scan import scan
from tests.unit.sourcelog.relaylog.binlog_bytes import (
    event,
    file_bytes,
    format_description,
    previous_gtids,
    transaction,
)


def at(events: list[bytes], time: int) -> list[bytes]:
    """The same events, written at this time."""
    return [event(data[4], data[19:-4], time=time) for data in events]


def binlog(number: int) -> str:
    return f"mysql-bin.{number:06d}"


def add_file(sub: SubDirectory, number: int, times: list[int], *, first: int, final: bool = True) -> int:
    """A file with a transaction at each of these times, numbered from `first` on; gives the next number."""
    created = times[0] if times else 1_700_000_000 + 100 * number
    events = at([format_description(), previous_gtids(first - 1)], created)
    for offset, time in enumerate(times):
        events += at(transaction(first + offset), time)
    path = sub.file(binlog(number))
    path.write_bytes(file_bytes(events))
    found = scan(path, sub.idx(path.name), "mysql")
    assert found is not None
    found.index.final = final
    found.index.next_file = binlog(number + 1) if final else ""
    write_index(sub.idx(path.name), found.index)
    return first + len(times)


def add_files(directory: RelayDirectory, uuid: str, numbers: range, *, times: int = 1) -> SubDirectory:
    """A new sub-directory with these files, the last of them open."""
    sub = directory.add(uuid)
    following = 1
    for number in numbers:
        written = [1_700_000_000 + 100 * number + second for second in range(times)]
        following = add_file(sub, number, written, first=following, final=number != numbers[-1])
    return sub


def names(root: Path) -> list[str]:
    """All relay files with their sub-directories, in order."""
    return [f"{sub.name}/{name}" for sub in RelayDirectory(root).sub_directories() for name in sub.files()]
