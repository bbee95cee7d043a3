"""What another user of the machine gets from the Spark session of a local dump or load: nothing.

Spark's driver listens on this machine for its own executors. The attacker speaks the protocol of its block transfers
(common/network-common, MessageEncoder.java and OpenBlocks.java), and asks each port for the blocks in which a job's
functions are.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.attacks.other_user import as_nobody, needs_root
from tests.testbed.looks import looks

pytestmark = [pytest.mark.chaos, pytest.mark.spark, needs_root]

_FETCH = """
def text(value):
    return struct.pack(">i", len(value)) + value.encode()

def blocks(names):
    return b"\\0" + text("app") + text("driver") + struct.pack(">i", len(names)) + b"".join(map(text, names))

def frame(kind, head, body=b""):
    return struct.pack(">qB", 9 + len(head) + len(body), kind) + head + body

def whole(peer, size):
    data = b""
    while len(data) < size:
        more = peer.recv(size - len(data))
        if not more:
            raise ConnectionResetError
        data += more
    return data

def answer(peer):
    length, kind = struct.unpack(">qB", whole(peer, 9))
    if length > 1 << 24:  # another protocol
        raise ConnectionResetError
    return kind, whole(peer, length - 9)

def fetched(port, name):
    with socket.create_connection(("127.0.0.1", port), 5) as peer:
        peer.settimeout(5)
        body = blocks([name])
        peer.sendall(frame(3, struct.pack(">qi", 1, len(body)), body))
        kind, said = answer(peer)
        if kind != 4:
            return b""
        stream, chunks = struct.unpack(">qi", said[13:25])
        peer.sendall(frame(0, struct.pack(">qi", stream, 0)))
        kind, said = answer(peer)
        return said if kind == 1 else b""

got = 0
for port in map(int, sys.argv[1:]):
    for number in range(12):
        try:
            got += len(fetched(port, f"broadcast_{number}_piece0"))
        except TimeoutError:
            break
        except OSError:
            continue
print(got)
"""


_JOB = """
import pathlib, sys, threading
from dm.spark.job import run_tasks
from dm.spark.session import SparkProvider

begun = pathlib.Path(sys.argv[1], "begun")

def work(item):
    begun.touch()
    threading.Event().wait()

provider = SparkProvider("local[1]", {}, pathlib.Path(sys.argv[1], "scratch"))
context = provider.context()
print(provider.jvm_pid, flush=True)
run_tasks(context, work, [1], threading.Event(), print, "attacked")
"""


def ports_of(pid: int) -> list[str]:
    """Where a process listens; anybody finds that by trying them all."""
    held = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir()}
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()]
    found = [row[1] for row in rows if row[3] == "0A" and f"socket:[{row[9]}]" in held]
    return [str(int(address.rpartition(":")[2], 16)) for address in found]


def test_blocks_of_a_running_job_are_given_to_nobody_else(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _JOB, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as driver:
        try:
            assert driver.stdout is not None
            jvm = int(driver.stdout.readline())
            assert any((tmp_path / "begun").exists() for _ in looks(120))
            ports = ports_of(jvm)
            got = as_nobody(_FETCH, *ports)
        finally:
            driver.kill()
    assert len(ports) >= 3
    assert got == "0\n"
