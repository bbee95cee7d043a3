"""Spark's worker daemon, forked before Spark asks for it.

Problem: Spark starts the process that its Python workers are forked from with the first job that has Python in it. So
two long starts come one after the other: the JVM's, and the imports of that process, which are more than a second of
CPU. Most of these modules the unit host has from its first moment (`dm.task.host_forks`).

So the host forks the worker daemon from itself before it has a second thread. It does nothing until a session starts;
then it imports what is missing while the JVM starts. What Spark starts later (`worker_daemon`) finds it by a socket in
the session's directory, gives it its own files, environment and directory, and stays only to be ended by Spark.

Invariant: without it, or where it has ended or is taken already, the process that Spark starts does the work itself.
Nobody is waited for. It ends with the host, or when the host closes it, as long as Spark has not taken it; from then on
it lives as Spark's own does, until its standard input ends.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import os
import select
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn, Self

_MOST_BYTES: Final = 1 << 16
_TAKEN: Final = b"taken"
_SOCKET: Final = "workers"  # in the session's directory
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # malloc.h
_LARGE: Final = 32 << 20  # up to which the library itself raises the size of a piece that is the system's own


class DaemonAhead:
    """The host's end."""

    def __init__(self, pid: int, orders: socket.socket) -> None:
        self.pid = pid
        self._orders = orders
        self._told = False

    @classmethod
    def forked(cls, command: Sequence[str], be_called: Callable[[Sequence[str]], None]) -> Self:
        """Fork it from this process, which has one thread; raises OSError. `be_called` has `ps` show the command."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        pid = os.fork()
        if pid:
            theirs.close()
            return cls(pid, ours)
        status = 1
        try:
            ours.close()
            be_called(command)
            _wait_for_spark(theirs)
            status = 0
        except SystemExit as end:  # as the daemon's loop ends
            status = end.code if isinstance(end.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)

    def prepare(self, modules: Sequence[str], directory: Path) -> str:
        """Have it import these; gives the socket's path, or nothing where it can't be had (any more)."""
        if self._told:
            return ""
        self._told = True
        path = str(directory / _SOCKET)
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
            try:
                listener.bind(path)
                listener.listen(1)
                socket.send_fds(self._orders, [json.dumps(list(modules)).encode()], [listener.fileno()])
            except OSError:  # a path that is too long, or the process has ended
                return ""
        return path

    def close(self) -> None:
        """End it, unless Spark has it."""
        self._told = True
        self._orders.close()


def hand_over(path: str) -> bool:
    """Have the process at that socket be Spark's daemon instead of this one, until its end; False where it can't be."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as there:
        try:
            there.connect(path)
            given = {"environment": dict(os.environ), "directory": str(Path.cwd()), "arguments": sys.argv}
            socket.send_fds(there, [b"\n"], [0, 1, 2])
            there.sendall(json.dumps(given).encode())
            there.shutdown(socket.SHUT_WR)
            if there.recv(len(_TAKEN)) != _TAKEN:
                return False
        except OSError:
            return False
        with suppress(ConnectionError):
            there.recv(1)  # nothing comes but the end
    return True


def _wait_for_spark(orders: socket.socket) -> None:
    """Import when a session starts, and be the daemon when Spark wants it; returns when the host wants neither."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # the host's commands, and below the way of its events: none of them is for this process
    os.close(null)
    os.dup2(2, 1)
    _settle()
    told, files, _, _ = socket.recv_fds(orders, _MOST_BYTES, 1)
    if not told:
        return
    with socket.socket(fileno=files[0]) as listener:
        for module in json.loads(told):
            importlib.import_module(module)
        gc.collect()
        gc.freeze()  # a collector that looks at what is shared would make copies of it
        there = select.select([listener, orders], [], [])[0]
        if listener not in there:
            return
        connection, _ = listener.accept()
        Path(listener.getsockname()).unlink(missing_ok=True)
    orders.close()
    _be_the_daemon(connection)


def _settle() -> None:
    """Have heap and collector as a new process has them; those of the host suit what runs for weeks."""
    library = ctypes.CDLL(None)
    if hasattr(library, "mallopt"):
        library.mallopt(_M_ARENA_MAX, 8 * (os.cpu_count() or 1))
        library.mallopt(_M_MMAP_THRESHOLD, _LARGE)
        library.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGE)
    gc.set_threshold(700, 10, 10)


def _be_the_daemon(connection: socket.socket) -> NoReturn:
    """Go on as the process at the other end, which keeps its end until this one is over."""
    _, files, _, _ = socket.recv_fds(connection, 1, 3)
    given = json.loads(b"".join(iter(lambda: connection.recv(_MOST_BYTES), b"")))
    for wanted, file in enumerate(files):
        os.dup2(file, wanted)
        os.close(file)
    os.environ.clear()
    os.environ.update(given["environment"])
    os.chdir(given["directory"])
    sys.argv = given["arguments"]
    added = [entry for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry and entry not in sys.path]
    sys.path[1:1] = added
    connection.sendall(_TAKEN)
    from pyspark.daemon import manager

    manager()
    raise SystemExit(1)  # it does not return
