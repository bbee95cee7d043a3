"""A source's relay directory, laid out as DM lays it out.

    <relay-dir>/
      server-uuid.index              one "<server uuid>.<NNNNNN>" per line, the number grows by one
      <server uuid>.000001/
        mysql-bin.000001 ..          the source's files, byte for byte
        mysql-bin.000001.idx         what we know about the file (ours, not DM's)
        relay.meta                   TOML: binlog-name, binlog-pos, binlog-gtid
      <other uuid>.000002/           after a switch to another server

The same server may come back later, in a new sub-directory. Names come from a server, so they are checked before they
become paths.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.errors import DMError

INDEX_NAME = "server-uuid.index"
META_NAME = "relay.meta"
IDX_SUFFIX = ".idx"

_SUB_DIRECTORY = re.compile(r"^([0-9A-Za-z-]{1,80})\.(\d{6,})$")
_BINLOG = re.compile(r"^[^/\\\x00-\x1f.][^/\\\x00-\x1f]{0,200}\.\d{6,10}$")


def is_binlog_name(name: str) -> bool:
    """Whether this can be the name of a binlog file."""
    return bool(_BINLOG.match(name))


def file_number(name: str) -> int:
    """The number behind the last dot; names are ordered by it, not as text (999999 comes before 1000000)."""
    return int(name.rpartition(".")[2])


@dataclass(frozen=True, slots=True)
class SubDirectory:
    """The files of one server, from one switch to the next."""

    path: Path
    server_uuid: str
    number: int

    @property
    def name(self) -> str:
        """Its line in the index."""
        return self.path.name

    def files(self) -> list[str]:
        """Names of the binlog files, in order."""
        try:
            found = [entry for entry in os.listdir(self.path) if is_binlog_name(entry)]
        except FileNotFoundError:
            return []
        return sorted(found, key=file_number)

    def file(self, name: str) -> Path:
        """The path of one file; refuses what is no binlog name."""
        if not is_binlog_name(name):
            raise DMError("relay-name-refused", file=name)
        return self.path / name

    def idx(self, name: str) -> Path:
        """The path of a file's index."""
        return self.file(name).with_name(name + IDX_SUFFIX)

    @property
    def meta(self) -> Path:
        """The path of relay.meta."""
        return self.path / META_NAME


class RelayDirectory:
    """The relay directory of one source."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def sub_directories(self) -> list[SubDirectory]:
        """All of them in the order of their numbers; the last one is being written."""
        try:
            text = (self.root / INDEX_NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise DMError("relay-directory-foreign", path=self.root, what=f"{INDEX_NAME} is not text") from error
        found: list[SubDirectory] = []
        for line in filter(None, (line.strip() for line in text.splitlines())):
            match = _SUB_DIRECTORY.match(line)
            if match is None:
                raise DMError("relay-directory-foreign", path=self.root, what=f"{INDEX_NAME} has the line {line!r}")
            found.append(SubDirectory(self.root / line, match[1], int(match[2])))
        return sorted(found, key=lambda sub: sub.number)

    def last(self) -> SubDirectory | None:
        """The newest sub-directory."""
        found = self.sub_directories()
        return found[-1] if found else None

    def after(self, current: SubDirectory) -> SubDirectory | None:
        """The sub-directory that follows."""
        return next((sub for sub in self.sub_directories() if sub.number > current.number), None)

    def add(self, server_uuid: str) -> SubDirectory:
        """Begin a new sub-directory for this server."""
        existing = self.sub_directories()
        number = existing[-1].number + 1 if existing else 1
        name = f"{server_uuid}.{number:06d}"
        if not _SUB_DIRECTORY.match(name):
            raise DMError("relay-name-refused", file=name)
        sub = SubDirectory(self.root / name, server_uuid, number)
        sub.path.mkdir(parents=True, exist_ok=True)
        lines = [*(known.name for known in existing), name]
        write_atomically(self.root / INDEX_NAME, "".join(f"{line}\n" for line in lines).encode(), durable=True)
        return sub
