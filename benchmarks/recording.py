"""A workload in the binlog of a source: which file, how many rows, what was there before."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from pymysql.constants import CLIENT

from benchmarks.workload import Workload, play
from dm.demo.private_server import PrivateServer
from dm.demo.servers import Option, ThrowawayServer
from tests.testbed.sync import wait_until

SCHEMA = "bench"
_FEW_PAGES = 100  # the server's own tables always have some
_WRITTEN_SECONDS = 120.0
# Both sides and all peers: commits reach the operating system, not the disk; what differs is said where it does.
OPTIONS: Mapping[str, Option] = {
    "innodb_buffer_pool_size": "1G",
    "innodb_redo_log_capacity": "1G",
    "innodb_flush_log_at_trx_commit": 2,
    "sync_binlog": 0,
}
SOURCE_OPTIONS: Mapping[str, Option] = {**OPTIONS, "binlog_row_metadata": "FULL", "max_binlog_size": 1 << 30}
TARGET_OPTIONS: Mapping[str, Option] = {**OPTIONS, "log_bin": "binlog"}


@dataclass(frozen=True, slots=True)
class Recording:
    """One workload, written."""

    workload: Workload
    table: str
    scale_rows: int
    rows: int  # row changes in the file
    file: str
    path: Path
    size: int  # bytes of the file
    gtids_before: str
    gtids_after: str


def create_table(server: PrivateServer, workload: Workload, table: str, scale_rows: int) -> None:
    """The table as it is before the workload, in no binlog."""
    with closing(server.connect(client_flag=CLIENT.MULTI_STATEMENTS)) as connection:
        with connection.cursor() as cursor:
            if not server.tidb:  # which has no binlog
                cursor.execute("SET SESSION sql_log_bin = 0")
            cursor.execute(f"CREATE DATABASE IF NOT EXISTS {SCHEMA}")
            cursor.execute(f"DROP TABLE IF EXISTS {SCHEMA}.{table}")
            cursor.execute(workload.create.replace("{name}", f"{SCHEMA}.{table}"))
        play(connection, f"{SCHEMA}.{table}", workload.before(scale_rows))


def record(source: ThrowawayServer, workload: Workload, scale: float, table: str = "") -> Recording:
    """Play the workload on the source, in a binlog file of its own."""
    scale_rows = int(workload.rows * scale)
    table = table or f"workload_{workload.name.lower()}"
    create_table(source, workload, table, scale_rows)
    source.execute("FLUSH BINARY LOGS")
    file = str(source.query("SHOW BINARY LOG STATUS")[0][0])
    before = _gtids(source)
    with closing(source.connect(client_flag=CLIENT.MULTI_STATEMENTS)) as connection:
        rows = play(connection, f"{SCHEMA}.{table}", workload.transactions(scale_rows))
    after = _gtids(source)
    now = str(source.query("SHOW BINARY LOG STATUS")[0][0])
    if now != file:
        raise RuntimeError(f"workload {workload.name} does not fit into one binlog file")
    source.execute("FLUSH BINARY LOGS")
    _write_out(source)
    path = source.data / file
    return Recording(workload, table, scale_rows, rows, file, path, path.stat().st_size, before, after)


def _write_out(server: ThrowawayServer) -> None:
    """Have all changed pages written now: later the server would do so beside whoever is measured first."""
    names = ("innodb_max_dirty_pages_pct", "innodb_max_dirty_pages_pct_lwm")
    server.execute(*(f"SET GLOBAL {name} = 0" for name in reversed(names)))
    status = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_pages_dirty'"
    wait_until(lambda: int(server.query(status)[0][1]) <= _FEW_PAGES, "all pages written", _WRITTEN_SECONDS)
    server.execute(*(f"SET GLOBAL {name} = DEFAULT" for name in names))


def _gtids(source: ThrowawayServer) -> str:
    return str(source.query("SELECT @@GLOBAL.gtid_executed")[0][0]).replace("\n", "")
