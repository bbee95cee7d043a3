"""What a process holds in memory, and transactions that are larger than it may hold."""

from __future__ import annotations

from pathlib import Path

from dm.demo.servers import ThrowawayServer

ROW = 1024
"""Bytes of a row that `insert_rows` writes, about."""


class NoMemory(Exception):
    """The process has ended, and nobody has waited for it yet."""


def memory_of(pid: int, what: str) -> int:
    """`VmRSS` or `VmHWM`, bytes; raises NoMemory."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(f"{what}:"):
            return int(line.split()[1]) << 10
    raise NoMemory(f"process {pid} has no {what}")


def begin_peak_anew(pid: int) -> None:
    """From here on `VmHWM` is the most since now (proc(5), clear_refs)."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")


def insert_rows(server: ThrowawayServer, schema: str, table: str, size: int) -> None:
    """Write rows of 1 KiB, so many bytes in all, in one transaction."""
    rows = size // ROW
    select = f"n, RPAD(CONCAT(n, '-'), {ROW - 20}, HEX(n * 7919))"
    if server.flavor == "mariadb":
        server.execute(
            f"USE {schema}", f"INSERT INTO {table} SELECT {select} FROM (SELECT seq AS n FROM seq_1_to_{rows}) s"
        )
    else:
        server.execute(
            f"USE {schema}",
            f"SET SESSION cte_max_recursion_depth = {rows + 1}",
            f"INSERT INTO {table} WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < {rows})"
            f" SELECT {select} FROM s",
        )
