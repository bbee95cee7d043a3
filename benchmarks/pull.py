"""The relay's pull: MB per CPU second from a source to files, with all that a relay does on the way.

Ours checks every event's CRC-32, writes the file and its index. `mysqlbinlog --read-from-remote-server --raw` writes
the bytes.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

from benchmarks.measure import Comparison, Series, in_turn, run_program, run_python
from benchmarks.recording import Recording
from dm.demo.servers import ThrowawayServer

GOALS = {"A": 1.0, "B": 0.8, "C": 0.8}
_MB = 1e6


def measure(source: ThrowawayServer, recording: Recording, rounds: int) -> Comparison:
    """Both, one after the other, in each round; who is first changes."""
    ours = Series("dm relay", "MB per CPU second")
    peer = Series("mysqlbinlog --raw", "MB per CPU second")
    for number in range(rounds):
        for series, pull in in_turn(((ours, pull_ours), (peer, _pull_peer)), number):
            with tempfile.TemporaryDirectory(prefix="dm-bench-") as directory:
                series.values.append(recording.size / _MB / pull(source, recording, Path(directory)))
    name = recording.workload.name
    return Comparison(f"pull.{name}", f"relay pull {name}", ours, peer, GOALS[name])


def pull_ours(source: ThrowawayServer, recording: Recording, directory: Path) -> float:
    """Fill a relay directory with the recording's file; gives the CPU seconds."""
    answer = run_python(
        "benchmarks.pull_ours",
        {
            "host": source.host,
            "port": source.port,
            "user": source.user,
            "password": source.password,
            "file": recording.file,
            "size": recording.size,
            "directory": str(directory),
        },
    )
    assert isinstance(answer, dict)
    return float(str(answer["seconds"]))


def _pull_peer(source: ThrowawayServer, recording: Recording, directory: Path) -> float:
    command = [
        *source.installation.command("mysqlbinlog"),
        "--no-defaults",
        "--read-from-remote-server",
        "--raw",
        f"--host={source.host}",
        f"--port={source.port}",
        f"--user={source.user}",
        "--get-server-public-key",
        "--connection-server-id=990002",
        f"--result-file={directory}{os.sep}",
        recording.file,
    ]
    seconds = run_program(command, environment={"MYSQL_PWD": source.password}).cost.client
    written = directory / recording.file
    if written.stat().st_size != recording.size:
        raise RuntimeError(f"mysqlbinlog wrote {written.stat().st_size} bytes of {recording.size}")
    shutil.rmtree(directory)
    directory.mkdir()
    return seconds
