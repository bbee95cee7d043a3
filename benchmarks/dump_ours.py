"""`python -m benchmarks.dump_ours`: what a worker of a dump does with a chunk, here a whole table, without Spark.

Its order may leave the compression out, which tells from what is left what compressing costs.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from contextlib import closing
from pathlib import Path
from unittest import mock

from pyarrow import parquet

from dm.config.subtask import SubtaskConfig
from dm.dumper.chunk_reader import ChunkReader, ChunkTask, plain_rows, select_text, selected_columns, shared_marker
from dm.dumpfiles.storage import LocalStorage
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.sourcelog.upstream.facts import question_session, read_facts, read_structure, row_session

_WRITER = parquet.ParquetWriter


def main() -> None:
    """Read the table that stdin names; stdout says its rows, and the CPU seconds."""
    order = json.loads(sys.stdin.read())
    began = time.process_time()
    subtask = SubtaskConfig.from_wire(order["subtask"])
    table = TableName(order["schema"], "t")
    with closing(question_session(subtask.source.endpoint)) as connection:
        facts = read_facts(connection)
        structure = read_structure(connection, table)
    schema = parse_create_table(structure, SourceContext(facts.flavor, facts.version, table.schema))
    types = subtask.spark.json_types != "text"
    select, columns = select_text(schema, None, json_types=types), selected_columns(schema, json_types=types)
    plain = plain_rows(schema, None) if types and len(columns) > len(selected_columns(schema)) else None
    task = ChunkTask(table, 0, 0, columns, select, "1", f"{table.schema}.parquet", plain=plain)
    writer = _plain_writer if order["plain"] else _WRITER
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        mock.patch.object(parquet, "ParquetWriter", writer),
    ):
        shared_marker(Path(directory), subtask.task).touch()  # without it, nothing is reported
        reader = ChunkReader(subtask.source.endpoint, facts, LocalStorage(Path(directory)), subtask.task)
        with closing(row_session(subtask.source.endpoint, facts)) as connection:
            found = reader.read(connection, task)
    print(json.dumps({"rows": found.rows, "seconds": time.process_time() - began}))


def _plain_writer(*arguments: object, **options: object) -> parquet.ParquetWriter:
    without = {name: option for name, option in options.items() if not name.startswith("compression")}
    return _WRITER(*arguments, **without, compression="none")


if __name__ == "__main__":
    main()
