"""Processes that are forked from one that has imported everything: they begin, end and are told apart like others."""

from __future__ import annotations

import signal

from tests.testbed.forked import ForkedProcess, ForkServer

IMPORTS = "import ctypes, os, sys, time"
WORK = """
word = sys.stdin.readline().strip()
if word == "fail":
    raise ValueError("as asked")
if word == "sleep":
    print("asleep", flush=True)
    time.sleep(600)
print(os.getpid(), word)
"""


def told(process: ForkedProcess, word: str) -> ForkedProcess:
    process.stdin.write(f"{word}\n")
    process.stdin.flush()
    return process


def test_each_has_its_own_pipes_and_its_own_end() -> None:
    server = ForkServer(IMPORTS, WORK)
    try:
        failing, sleeping, good = (told(ForkedProcess(server), word) for word in ("fail", "sleep", "hello"))
        assert good.stdout.readline() == f"{good.pid} hello\n"
        assert (good.wait(30), failing.wait(30)) == (0, 1)
        assert failing.log().endswith("ValueError: as asked\n")
        assert sleeping.stdout.readline() == "asleep\n"
        assert sleeping.poll() is None
        sleeping.kill()
        assert sleeping.wait(30) == sleeping.poll() == -signal.SIGKILL
        for process in (failing, sleeping, good):
            process.close()
    finally:
        server.close()


def test_none_outlives_the_server() -> None:
    server = ForkServer(IMPORTS, WORK)
    process = told(ForkedProcess(server), "sleep")
    assert process.stdout.readline() == "asleep\n"
    server.close()
    assert process.stdout.readline() == ""
    process.close()
