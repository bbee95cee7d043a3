"""`python -m benchmarks.latency_peer`: follow inserts with mysql-replication and pymysql, row by row."""

from __future__ import annotations

import json
import sys

import pymysql
from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

_SERVER_ID = 990_003


def main() -> None:
    """Follow until killed."""
    order = json.loads(sys.stdin.readline())
    target = pymysql.connect(**order["target"], autocommit=True)
    cursor = target.cursor()
    stream = BinLogStreamReader(
        connection_settings=order["source"],
        server_id=_SERVER_ID,
        log_file=order["file"],
        log_pos=order["position"],
        resume_stream=True,
        blocking=True,
        only_events=[WriteRowsEvent],
    )
    for event in stream:
        for row in event.rows:
            names = list(row["values"])
            places = ", ".join(["%s"] * len(names))
            cursor.execute(
                f"INSERT INTO {event.schema}.{event.table} VALUES ({places})", [row["values"][name] for name in names]
            )


if __name__ == "__main__":
    main()
