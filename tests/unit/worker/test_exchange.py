"""A request to a daemon that answers before it has read all of it."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

from dm.cli.client import Client
from dm.errors import DMError
from dm.verbs.status import ListTasks
from dm.worker.exchange import over_socket

LONG = "x" * (4 << 20)  # more than a socket's buffers take, so the request is cut off while it is sent


def daemon(path: Path, answer: bytes, *, deaf: bool) -> threading.Thread:
    """Reads the head of one request, or all that has come, answers, and is gone."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen(1)

    def serve() -> None:
        connection, _ = listener.accept()
        with listener, connection:
            connection.recv(1 << 16)
            connection.sendall(answer)
            if deaf:
                connection.shutdown(socket.SHUT_RD)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


ANSWER = b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"result":true}'


@pytest.mark.parametrize("deaf", [True, False], ids=["it reads no more", "it is gone"])
def test_the_answer_of_a_daemon_that_reads_no_further_counts(tmp_path: Path, deaf: bool) -> None:
    serving = daemon(tmp_path / "s", ANSWER, deaf=deaf)
    assert over_socket(str(tmp_path / "s"), ("POST", "/api/v2/shutdown", LONG), 10) == (200, b'{"result":true}')
    serving.join()


def test_a_daemon_that_is_gone_without_an_answer_has_given_none(tmp_path: Path) -> None:
    serving = daemon(tmp_path / "s", b"", deaf=True)
    with pytest.raises(OSError, match=r"Remote end closed|reset by peer"):
        over_socket(str(tmp_path / "s"), ("POST", "/api/v2/shutdown", LONG), 10)
    serving.join()


def test_a_daemon_of_before_an_upgrade_is_told_from_something_else(tmp_path: Path) -> None:
    serving = daemon(
        tmp_path / "dm-worker.sock", b"HTTP/1.1 404 Not Found\r\nContent-Length: 9\r\n\r\nNot Found", deaf=False
    )
    with pytest.raises(DMError) as caught:
        Client(None, {"DM_HOME": str(tmp_path)}, print).ask(ListTasks())
    serving.join()
    assert caught.value.name == "bad-answer"
    assert "SIGTERM (`kill`) to the process whose number is in `$DM_HOME/lock`" in caught.value.workaround
