"""Jobs of DDL statements in a TiDB, stopped in their middle: `ADMIN PAUSE DDL JOBS`, which outlives the server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

from dm.ident import TableName
from tests.testbed.sync import wait_until
from tests.testbed.tidb import TidbServer


def jobs(server: TidbServer, table: TableName, words: str) -> list[tuple[int, str]]:
    """Number and state of all jobs of the table, also of those that have ended, whose statement has the words."""
    found = server.query(
        "SELECT job_id, state FROM information_schema.ddl_jobs"
        " WHERE db_name = %s AND table_name = %s AND query LIKE %s",
        (table.schema, table.table, f"%{words}%"),
    )
    return [(int(number), str(state)) for number, state in found]


@contextmanager
def in_use(server: TidbServer, table: TableName) -> Iterator[None]:
    """A transaction has read the table: statements that alter it wait for its end, in the middle of their jobs."""
    with closing(server.connect(autocommit=False)) as reader, reader.cursor() as cursor:
        cursor.execute(f"SELECT * FROM {table.sql} LIMIT 1")
        yield


def pause(server: TidbServer, table: TableName, words: str) -> int:
    """Wait for a job of the table, and have it stand still from its next step on; gives its number."""
    wait_until(lambda: bool(jobs(server, table, words)), f"a job with {words}")
    ((number, _),) = jobs(server, table, words)
    server.execute(f"ADMIN PAUSE DDL JOBS {number}")
    return number


@contextmanager
def standing_still(server: TidbServer, table: TableName, words: str, number: int) -> Iterator[None]:
    """The job stands still until the end of the block; whatever else is to be done to the table waits for it."""
    try:
        wait_until(lambda: jobs(server, table, words) == [(number, "paused")], "the job stands still")
        yield
        assert jobs(server, table, words) == [(number, "paused")], "no other job came"
    finally:
        server.execute(f"ADMIN RESUME DDL JOBS {number}")


def times_asked(server: TidbServer, columns: str) -> int:
    """How often the server was asked for these columns of its jobs, in the words of its statement summary."""
    ((count,),) = server.query(
        "SELECT SUM(exec_count) FROM information_schema.statements_summary WHERE digest_text LIKE %s",
        (f"select {columns} from `information_schema` . `ddl_jobs`%",),
    )
    return int(count or 0)
