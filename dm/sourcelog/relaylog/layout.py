"""A source's relay directory, laid out as DM lays it out.

    <relay-dir>/
      server-uuid.index              one "<server uuid>.<NNNNNN>" per line, the number grows by one
      <server uuid>.000001/
        mysql-bin.000001 ..          the source's files, byte for byte
        mysql-bin.000001.idx         what we know about the file (ours, not DM's)
        relay.meta                   TOML: binlog-name, binlog-pos, binlog-gtid
      <other uuid>.000002/           after a switch to another server
      <uuid>.000003.reset/           of a history that the source has reset and no task needs; nobody reads it
      holds/                         what each task still needs (ours, dm/sourcelog/relaylog/hold.py)

The same server may come back later, in a new sub-directory. Names come from a server, so they are checked before they
become paths.

The directories' own names say all that `server-uuid.index` says, so a lost or old index loses nothing: what it does not
list and has files counts too, and the relay writes it anew. Files of one sub-directory have one base name and are
ordered by number; a source that changes its `log_bin` gets a new sub-directory, because its numbers begin again.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path

from dm import faults
from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.mysql.dialect import Flavor

INDEX_NAME = "server-uuid.index"
META_NAME = "relay.meta"
IDX_SUFFIX = ".idx"
COMPANIONS = (".damaged", ".fetching")  # other files that may exist while a file is being replaced

RESET_SUFFIX = ".reset"

_SUB_DIRECTORY = re.compile(r"([0-9A-Za-z-]{1,80})\.([0-9]{6,18})")
_MARIADB_UUID = re.compile(r"[0-9]+-[0-9]+")
_BINLOG = re.compile(r"[^/\\\x00-\x1f.][^/\\\x00-\x1f]{0,200}\.[0-9]{6,10}")


def is_binlog_name(name: str) -> bool:
    """Whether this can be the name of a binlog file."""
    return bool(_BINLOG.fullmatch(name))


def file_number(name: str) -> int:
    """The number after the last dot; names are ordered by it, not as text (999999 comes before 1000000)."""
    return int(name.rpartition(".")[2])


def base_name(name: str) -> str:
    """The part before the last dot: the source's `log_bin`."""
    return name.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class SubDirectory:
    """The files of one server between two switches."""

    path: Path
    server_uuid: str
    number: int

    @property
    def name(self) -> str:
        """Its line in the index."""
        return self.path.name

    @property
    def is_mariadb(self) -> bool:
        """Whether its server is a MariaDB one, which is named by domain and id instead of a uuid."""
        return bool(_MARIADB_UUID.fullmatch(self.server_uuid))

    @property
    def flavor(self) -> Flavor:
        """Whose binlog the files are."""
        return "mariadb" if self.is_mariadb else "mysql"

    def files(self) -> list[str]:
        """Names of the binlog files, in order."""
        try:
            found = [entry for entry in os.listdir(self.path) if is_binlog_name(entry)]
        except FileNotFoundError:
            return []
        bases = {base_name(name) for name in found}
        if len(bases) > 1:
            what = f"files of different names ({', '.join(sorted(bases))}), which have no order"
            raise DMError("relay-directory-foreign", path=self.path, what=what)
        return sorted(found, key=file_number)

    def file(self, name: str) -> Path:
        """The path of one file; refuses a name that is no binlog name."""
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
        self._index_change = threading.Lock()  # for a relay's puller and its purge; other processes only read the index

    def sub_directories(self) -> list[SubDirectory]:
        """All of them in the order of their numbers; the last one is being written."""
        found = {sub.number: sub for sub in self._listed()}
        for sub in self._present():
            if sub.number not in found and sub.files():
                found[sub.number] = sub
            elif sub.number in found and sub != found[sub.number] and sub.files():
                what = f"{sub.name} and {found[sub.number].name} have the same number"
                raise DMError("relay-directory-foreign", path=self.root, what=what)
        return [found[number] for number in sorted(found)]

    def mend(self) -> None:
        """Rewrite the index if it does not list every sub-directory; for the relay alone."""
        with self._index_change:
            subs = self.sub_directories()
            if subs != self._listed():
                self._write_index(subs)

    def _listed(self) -> list[SubDirectory]:
        try:
            text = (self.root / INDEX_NAME).read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        except UnicodeDecodeError as error:
            raise DMError("relay-directory-foreign", path=self.root, what=f"{INDEX_NAME} is not text") from error
        found: list[SubDirectory] = []
        for line in filter(None, (line.strip() for line in text.splitlines())):
            sub = self.named(line)
            if sub is None:
                raise DMError("relay-directory-foreign", path=self.root, what=f"{INDEX_NAME} has the line {line!r}")
            found.append(sub)
        return sorted(found, key=lambda sub: sub.number)

    def _present(self) -> list[SubDirectory]:
        try:
            names = sorted(os.listdir(self.root))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [sub for name in names if (sub := self.named(name)) is not None and sub.path.is_dir()]

    def named(self, name: str) -> SubDirectory | None:
        """The sub-directory of this name; None for a name that none can have."""
        match = _SUB_DIRECTORY.fullmatch(name)
        return None if match is None else SubDirectory(self.root / name, match[1], int(match[2]))

    def last(self) -> SubDirectory | None:
        """The newest sub-directory."""
        found = self.sub_directories()
        return found[-1] if found else None

    def after(self, current: SubDirectory) -> SubDirectory | None:
        """The sub-directory that follows."""
        return next((sub for sub in self.sub_directories() if sub.number > current.number), None)

    def add(self, server_uuid: str) -> SubDirectory:
        """Begin a new sub-directory for this server."""
        with self._index_change:
            existing = self.sub_directories()
            number = 1 + max([0, *(sub.number for sub in existing), *self._numbers_aside()])
            name = f"{server_uuid}.{number:06d}"
            if not _SUB_DIRECTORY.fullmatch(name):
                raise DMError("relay-name-refused", file=name)
            sub = SubDirectory(self.root / name, server_uuid, number)
            sub.path.mkdir(parents=True, exist_ok=True)
            self._write_index([*existing, sub])
        return sub

    def set_aside(self) -> None:
        """Take every sub-directory out of use, under a name that readers ignore; for the relay alone."""
        with self._index_change:
            for sub in self.sub_directories():  # the newest last: its presence says that this is not finished
                if sub.path.is_dir():
                    sub.path.rename(sub.path.with_name(sub.name + RESET_SUFFIX))
            self._write_index([])

    def _numbers_aside(self) -> list[int]:
        names = [path.name.removesuffix(RESET_SUFFIX) for path in self.root.glob(f"*{RESET_SUFFIX}")]
        return [sub.number for name in names if (sub := self.named(name)) is not None]

    def remove(self, sub: SubDirectory) -> bool:
        """Remove an older sub-directory without binlog files; False when it has some, or has foreign files.

        The directory is removed first: readers pass over a line without a directory, and the next removal clears it. A
        directory without a line would stay for ever.
        """
        with self._index_change:
            existing = self.sub_directories()
            if existing and existing[-1].number == sub.number:
                return False
            if sub.path.is_dir():
                entries = os.listdir(sub.path)
                if not all(map(is_remnant, entries)):
                    return False
                for entry in entries:
                    (sub.path / entry).unlink(missing_ok=True)
                sub.path.rmdir()
            faults.hit("purge.directory_removed")
            self._write_index([other for other in existing if other.number != sub.number])
        return True

    def _write_index(self, subs: list[SubDirectory]) -> None:
        lines = "".join(f"{sub.name}\n" for sub in subs)
        write_atomically(self.root / INDEX_NAME, lines.encode(), durable=True)


def is_remnant(entry: str) -> bool:
    """Whether a file of this name belongs to removed relay files."""
    return entry == META_NAME or entry.endswith((IDX_SUFFIX, *COMPANIONS, ".tmp"))
