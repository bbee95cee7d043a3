"""Decoding: rows per CPU second of one process, from a binlog file with everything in it.

Ours reads the file, checks the CRC-32 of every event, parses every event, and decodes both images of every row.
mysql-replication is given the same file by the server, because it reads from nowhere else: its figure has the reading
from the socket in it, ours the reading from the page cache.
"""

from __future__ import annotations

from benchmarks.measure import Comparison, Series, in_turn, run_python
from benchmarks.recording import SCHEMA, Recording
from dm.accelerator import switch
from dm.demo.servers import ThrowawayServer
from dm.mysql.sql.context import version_number
from dm.unit import JSON

# Design's table, per workload, compiled and in Python alone (DM_ACCELERATOR=off); H is not among them.
COMPILED_GOALS = {"A": 40.0, "B": 50.0, "C": 40.0}
PURE_GOALS = {"A": 25.0, "B": 15.0, "C": 6.0}
GOALS = PURE_GOALS if switch.extension() is None else COMPILED_GOALS


def measure(source: ThrowawayServer, recording: Recording, rounds: int) -> Comparison:
    """Both, one after the other, in each round; who is first changes."""
    ours = Series("dm", "rows per CPU second")
    peer = Series("mysql-replication", "rows per CPU second")
    sides = (
        (ours, "benchmarks.decode_ours", order_of_ours(source, recording)),
        (peer, "benchmarks.decode_peer", _order(source, recording)),
    )
    for number in range(rounds):
        for series, module, order in in_turn(sides, number):
            answer = run_python(module, order)
            assert isinstance(answer, dict)
            if answer["rows"] != recording.rows:
                raise RuntimeError(f"{series.name} found {answer['rows']} rows of {recording.rows}")
            series.values.append(recording.rows / float(str(answer["seconds"])))
    name = recording.workload.name
    how = "in Python" if switch.extension() is None else "compiled"
    return Comparison(f"decode.{name}", f"decode {name}, {how}", ours, peer, GOALS[name])


def order_of_ours(source: ThrowawayServer, recording: Recording) -> dict[str, JSON]:
    """What `benchmarks.decode_ours` is given."""
    structure = str(source.query(f"SHOW CREATE TABLE {SCHEMA}.{recording.table}")[0][1])
    version = version_number(str(source.query("SELECT VERSION()")[0][0]))
    return {"file": str(recording.path), "structure": structure, "version": version, "schema": SCHEMA}


def _order(source: ThrowawayServer, recording: Recording) -> dict[str, JSON]:
    return {
        "host": source.host,
        "port": source.port,
        "user": source.user,
        "password": source.password,
        "file": recording.file,
    }
