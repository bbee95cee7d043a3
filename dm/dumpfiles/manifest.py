"""The manifest of a finished dump: every file with its size and SHA-256, chunk files with their table and rows.

It is written before the plan says that the dump is finished, so a finished dump of ours has one. Whoever reads the
files by other means than a load (`dm.tools.lake`, a copy to another place) knows from it which there must be.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from dm.dumpfiles.dump_files import MANIFEST_FILE
from dm.dumpfiles.storage import DumpStorage, read_bytes
from dm.errors import DMError
from dm.ident import TableName

_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class ListedFile:
    """One file; `table` and `rows` of chunk files only."""

    name: str
    size: int  # bytes
    sha256: str
    table: TableName | None = None
    rows: int = 0


@dataclass(frozen=True, slots=True)
class Manifest:
    """The files of one dump."""

    dump_id: str
    files: tuple[ListedFile, ...]

    def check(self, storage: DumpStorage, dump_id: str, table: TableName) -> None:
        """Raise DMError where a chunk file of the dump's table is missing or not as long as it was."""
        if self.dump_id != dump_id:
            raise DMError("dump-file-damaged", file=storage.shown(MANIFEST_FILE), why="it is of another dump")
        for file in self.files:
            if file.table != table:
                continue
            shown = storage.shown(file.name)
            try:
                size = storage.size(file.name)
            except FileNotFoundError:
                raise DMError("dump-file-damaged", file=shown, why="it is missing") from None
            if size != file.size:
                raise DMError("dump-file-damaged", file=shown, why=f"{size} bytes instead of {file.size}")


def sha256_of(storage: DumpStorage, name: str) -> str:
    """The checksum of a file's content, read in blocks."""
    digest = hashlib.sha256()
    with storage.open(name) as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()


def manifest_text(dump_id: str, files: Iterable[ListedFile]) -> str:
    """What the manifest of a dump says."""
    listed: list[dict[str, object]] = []
    for file in files:
        entry: dict[str, object] = {"name": file.name, "bytes": file.size, "sha256": file.sha256}
        if file.table is not None:
            entry |= {"table": list(file.table), "rows": file.rows}
        listed.append(entry)
    return json.dumps({"dump": dump_id, "files": listed}, indent=1)


def read_manifest(storage: DumpStorage) -> Manifest:
    """The manifest of a finished dump; DMError when it can't be read."""
    shown = storage.shown(MANIFEST_FILE)
    try:
        found = json.loads(read_bytes(storage, MANIFEST_FILE))
        files = tuple(
            ListedFile(
                file["name"],
                file["bytes"],
                file["sha256"],
                TableName(*file["table"]) if "table" in file else None,
                file.get("rows", 0),
            )
            for file in found["files"]
        )
        return Manifest(found["dump"], files)
    except FileNotFoundError:
        raise DMError("dump-file-damaged", file=shown, why="it is missing") from None
    except (ValueError, KeyError, TypeError) as error:
        raise DMError("dump-file-damaged", file=shown, why=str(error)) from error
