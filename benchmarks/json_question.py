"""`python -m benchmarks.json_question`: what the source takes to tell the types inside JSON documents, by the question.

Rows with the 20 columns of workload C, one session, nobody else: the server's own CPU. The question of a dump asks each
document for the values whose type its text does not say (`dm.mysql.sql.literal`). The other way asks by the
paths that have such values in some text of the chunk, once for all rows: whether any of them is not what its text would
be read as. It needs the texts first, and so a second scan of the rows.
"""

from __future__ import annotations

import argparse
import random
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from pymysql.cursors import SSCursor

from benchmarks.measure import server_seconds
from benchmarks.recording import SCHEMA, SOURCE_OPTIONS
from benchmarks.workload import WORKLOADS, play, wide_rows
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.sql.json_literal import special_value, types_expression

_ROWS = 50_000
_TABLE = TableName(SCHEMA, "json_question")
_PATHS = ("$.user.id", *(f"$.items[{at}].{name}" for at in range(3) for name in ("n", "price")))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.json_question", description="what types cost")
    parser.add_argument("--rows", type=int, default=_ROWS, help=f"how many (default {_ROWS})")
    given = parser.parse_args(arguments)
    document = f"{_TABLE.sql}.details"
    by_path = " OR ".join(special_value(f"JSON_EXTRACT({document}, '{path}')") for path in _PATHS)
    questions = {
        "no question: the rows": f"SELECT * FROM {_TABLE.sql}",
        "each document, with the rows": f"SELECT *, {types_expression(_TABLE, 'details')} FROM {_TABLE.sql}",
        f"{len(_PATHS)} paths, without the rows": f"SELECT MAX({by_path}) FROM {_TABLE.sql}",
        "the texts alone": f"SELECT details FROM {_TABLE.sql}",
        "a scan": f"SELECT MAX(LENGTH(name)) FROM {_TABLE.sql}",
    }
    with (
        tempfile.TemporaryDirectory(prefix="dm-bench-") as directory,
        ThrowawayServer("mysql", Path(directory) / "source", server_id=71, options=SOURCE_OPTIONS) as source,
        closing(source.connect()) as connection,
    ):
        source.execute(f"CREATE DATABASE {SCHEMA}", WORKLOADS["C"].create.replace("{name}", _TABLE.sql))
        play(connection, _TABLE.sql, wide_rows(random.Random("question"), given.rows))
        print("| question | us of the source's CPU per row |\n|---|---|")
        for name, question in questions.items():
            print(f"| {name} | {_cost(source, question) * 1e6 / given.rows:.2f} |", flush=True)
    return 0


def _cost(source: ThrowawayServer, question: str) -> float:
    with closing(source.connect()) as connection, connection.cursor(SSCursor) as cursor:
        before = server_seconds(source)
        cursor.execute(question)
        while cursor.fetchmany(1000):
            pass
        return server_seconds(source) - before


if __name__ == "__main__":
    raise SystemExit(main())
