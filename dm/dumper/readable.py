"""The files of a dump that people and other tools read: `metadata`, the schema files and the manifest.

`metadata` has the lines that DM reads of dumpling's (dm/pkg/dumpling/utils.go there): a status ends at an empty line,
lines that are not known are passed over. So what we add stands between the second status and the end: the own point of
each table that was not read as of the first one.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping

from dm.decimal_text import is_decimal
from dm.dumpfiles.dump_directory import MANIFEST_FILE, METADATA_FILE, PLAN_FILE
from dm.dumpfiles.dump_files import STREAMED, DumpPlan, file_stem, finished_chunk
from dm.dumpfiles.manifest import ListedFile, manifest_text, sha256_of
from dm.dumpfiles.sql_file import SCHEMA_HEADER
from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.position import Position


def _place(position: Position) -> str:
    return f"\tLog: {position.file}\n\tPos: {position.offset}\n\tGTID:{position.gtid_set}\n\n"


def _time(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(seconds))


def metadata_text(plan: DumpPlan, finished: float) -> str:
    """Dumpling's metadata: P0 as the status, P1 as the status after all connections were made (consistency none)."""
    title = "SHOW BINARY LOG STATUS:" if plan.flavor == "mysql" and plan.version >= 80200 else "SHOW MASTER STATUS:"
    text = f"Started dump at: {_time(plan.started)}\n{title}\n{_place(plan.p0)}"
    if plan.p1 is not None:
        text += f"{title} /* AFTER CONNECTION POOL ESTABLISHED */\n{_place(plan.p1)}"
    for table in plan.tables:
        if table.point is not None:
            text += f"TABLE {json.dumps(table.name.sql)}:\n{_place(table.point)}"
    return f"{text}Finished dump at: {_time(finished)}\n"


def write_readable(storage: DumpStorage, plan: DumpPlan, finished: float, checksums: Mapping[str, str]) -> None:
    """Write them all; `checksums` has those of chunk files that are known already."""
    texts = {METADATA_FILE: metadata_text(plan, finished)}
    for schema, (charset, collation) in plan.schemas.items():
        create = f"CREATE DATABASE {Ident(schema).sql} DEFAULT CHARACTER SET {charset} COLLATE {collation};\n"
        texts[f"{file_stem(TableName(schema, ''))}-schema-create.sql"] = SCHEMA_HEADER + create
    for table in plan.tables:
        texts[f"{file_stem(table.name)}-schema.sql"] = f"{SCHEMA_HEADER}{table.structure};\n"
    contents = {name: text.encode() for name, text in texts.items()}
    files = [ListedFile(name, len(data), hashlib.sha256(data).hexdigest()) for name, data in contents.items()]
    chunks = _chunk_files(storage, plan, checksums)
    _remove_leftovers(storage, {chunk.name for chunk in chunks})
    manifest = manifest_text(plan.dump_id, [*files, *chunks])
    storage.store(contents | {MANIFEST_FILE: manifest.encode()})


def _chunk_files(storage: DumpStorage, plan: DumpPlan, checksums: Mapping[str, str]) -> list[ListedFile]:
    found = []
    for table in plan.tables:
        for chunk in range(0 if table.form == STREAMED else table.chunks):
            name = table.file_name(chunk)
            footer = finished_chunk(storage, plan, table, chunk)
            if footer is None:
                raise DMError("dump-file-damaged", file=storage.shown(name), why="it is missing or of another dump")
            # An earlier run of the dump has told the checksums of its files to nobody.
            checksum = checksums.get(name) or sha256_of(storage, name)
            found.append(ListedFile(name, storage.size(name), checksum, table.name, footer.rows))
    return found


def _remove_leftovers(storage: DumpStorage, chunks: set[str]) -> None:
    """Other tools take every SQL file for a part of the dump: what an earlier round has left must go."""
    names = storage.names()
    if PLAN_FILE not in names:
        return
    numbers = {name: name.removesuffix(".sql").rpartition(".")[2] for name in names if name.endswith(".sql")}
    storage.remove(
        name for name, number in numbers.items() if name not in chunks and is_decimal(number) and len(number) >= 9
    )
