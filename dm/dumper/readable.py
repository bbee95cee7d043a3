"""The files of a dump that people and other tools read: dumpling's `metadata` and its schema files."""

from __future__ import annotations

import time
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.ident import Ident, TableName
from dm.position import Position
from dm.spark.dump_files import DumpPlan, file_stem

_HEADER = "/*!40101 SET NAMES binary*/;\n"


def _status(title: str, position: Position) -> str:
    return f"{title}:\n\tLog: {position.file}\n\tPos: {position.offset}\n\tGTID:{position.gtid_set}\n\n"


def metadata_text(plan: DumpPlan, finished: str) -> str:
    """Dumpling's metadata: P0 as the status, P1 as the status after all connections were made (consistency none)."""
    title = "SHOW BINARY LOG STATUS" if plan.flavor == "mysql" and plan.version >= 80200 else "SHOW MASTER STATUS"
    text = f"Started dump at: {finished}\n" + _status(title, plan.p0)
    if plan.p1 is not None:
        text += _status(f"{title}: /* AFTER CONNECTION POOL ESTABLISHED */", plan.p1)
    return f"{text}Finished dump at: {finished}\n"


def write_readable(directory: Path, plan: DumpPlan) -> None:
    """Write `metadata`, one file per schema and one per table."""
    now = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime())
    texts = {"metadata": metadata_text(plan, now)}
    for schema, (charset, collation) in plan.schemas.items():
        create = f"CREATE DATABASE {Ident(schema).sql} DEFAULT CHARACTER SET {charset} COLLATE {collation};\n"
        texts[f"{file_stem(TableName(schema, ''))}-schema-create.sql"] = _HEADER + create
    for table in plan.tables:
        texts[f"{file_stem(table.name)}-schema.sql"] = f"{_HEADER}{table.structure};\n"
    for name, text in texts.items():
        write_atomically(directory / name, text.encode(), durable=True)
