"""`python -m benchmarks.decode_peer`: the same with mysql-replication, which takes the file from the server."""

from __future__ import annotations

import json
import sys
import time

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.event import RotateEvent
from pymysqlreplication.row_event import DeleteRowsEvent, UpdateRowsEvent, WriteRowsEvent

_SERVER_ID = 990_001


def main() -> None:
    """Decode everything once; the CPU of the connection's start is not counted."""
    order = json.load(sys.stdin)
    stream = BinLogStreamReader(
        connection_settings={
            "host": order["host"],
            "port": order["port"],
            "user": order["user"],
            "passwd": order["password"],
        },
        server_id=_SERVER_ID,
        log_file=order["file"],
        log_pos=4,
        resume_stream=True,
        blocking=False,
        verify_checksum=True,
    )
    began = 0.0
    rows = 0
    for event in stream:
        began = began or time.process_time()
        if isinstance(event, WriteRowsEvent | UpdateRowsEvent | DeleteRowsEvent):
            rows += len(event.rows)
        elif isinstance(event, RotateEvent) and rows:
            break  # the next file
    seconds = time.process_time() - began
    stream.close()
    print(json.dumps({"rows": rows, "seconds": seconds}))


if __name__ == "__main__":
    main()
