"""`dm-worker`: the process that supervises tasks and answers `dmctl`."""

from __future__ import annotations

import argparse
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import structlog
import uvicorn

from dm.clock import SystemClock
from dm.errors import DMError
from dm.task.host_process import HOST_COMMAND
from dm.task.log import configure
from dm.worker.api import create_app
from dm.worker.api_server import ApiServer
from dm.worker.binlog_verbs import ProgressAtTarget
from dm.worker.home import HOME_TAKEN_STATUS, Home
from dm.worker.hosts import PATIENCE_SECONDS, Hosts
from dm.worker.loop import Loop
from dm.worker.operations import Operations, Servers
from dm.worker.registry import Registry
from dm.worker.supervisor import Locate, Supervisor
from dm.worker.version import installed_version


@dataclass(frozen=True, slots=True)
class Parts:
    """What a daemon is put together from besides itself; tests bring units of their own."""

    servers: Servers
    first_unit: Locate
    host_command: Sequence[str] = HOST_COMMAND
    patience: float = PATIENCE_SECONDS


def serve(home: Home, parts: Parts, listen: tuple[str, int] | None, stop: threading.Event) -> None:
    """Be the daemon until `stop` is set; units come to rest before this returns."""
    home.create()
    with ExitStack() as stack:
        stack.enter_context(home.locked())
        registry = Registry(home.registry)
        stack.callback(registry.close)
        clock = SystemClock()
        loop = Loop(clock)
        hosts = Hosts(clock, loop.post, home.log_of, parts.host_command, parts.patience)
        supervisor = Supervisor(home, registry, hosts, loop.post, clock, parts.first_unit)
        loop.start(supervisor.tick)
        stack.callback(loop.end)
        stack.callback(lambda: loop.call(hosts.end))
        operations = Operations(loop, supervisor, parts.servers)
        operations.take_up()
        with _listening(home, listen) as sockets:
            server = ApiServer(
                uvicorn.Config(create_app(operations, stop.set), log_config=None, access_log=False, lifespan="off")
            )
            thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, name="api", daemon=True)
            thread.start()
            structlog.get_logger().info(
                "serving", home=str(home.directory), listen=_port_of(sockets), version=installed_version()
            )
            stop.wait()
            server.end()
            thread.join()


@contextmanager
def _listening(home: Home, listen: tuple[str, int] | None) -> Iterator[list[socket.socket]]:
    """The sockets of the API; the one in the home is made anew, since a killed daemon leaves its name behind."""
    with ExitStack() as stack:
        path = stack.enter_context(home.socket_path())
        if os.path.lexists(path):
            os.unlink(path)
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(path)
        os.chmod(path, 0o600)
        stack.callback(os.unlink, path)
        sockets = [local]
        if listen is not None:
            port = stack.enter_context(socket.socket(socket.AF_INET))
            port.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port.bind(listen)
            sockets.append(port)
        for one in sockets:
            one.listen(128)
        yield sockets


def _port_of(sockets: Sequence[socket.socket]) -> str | None:
    """Where it listens besides the home's socket; port 0 was replaced by a free one."""
    for one in sockets:
        if one.family == socket.AF_INET:
            host, port = one.getsockname()
            return f"{host}:{port}"
    return None


def loopback(text: str) -> tuple[str, int]:
    """The host and port of `--listen`."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.IPv4Address("127.0.0.1" if host in ("", "localhost") else host)
        if address.is_loopback and 0 <= int(port) < 65536:
            return str(address), int(port)
    except ValueError:
        pass  # not an address or not a number: refused below like one that is not allowed
    raise DMError("listen-refused", address=text)


def run(parts: Parts, arguments: Sequence[str] | None = None) -> int:
    """The command with its arguments; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="dm-worker", description="Runs migration tasks on this machine; `dmctl` controls it. State: $DM_HOME."
    )
    parser.add_argument("--listen", metavar="127.0.0.1:PORT", help="listen there too, besides the socket in $DM_HOME")
    parser.add_argument("--version", action="version", version=f"dm-worker {installed_version()}")
    options = parser.parse_args(arguments)
    configure(process="dm-worker")
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    try:
        serve(Home.of(os.environ), parts, loopback(options.listen) if options.listen else None, stop)
    except DMError as error:
        structlog.get_logger().error("dm-worker ends", error=str(error))
        print(error, file=sys.stderr)  # noqa: T201  the one thing a person at a terminal needs to see
        if error.name == "daemon-running":
            return HOME_TAKEN_STATUS
        return 2 if error.kind.error_class == "config" else 1
    except OSError as error:
        structlog.get_logger().exception("dm-worker ends")
        print(f"dm-worker: {error}", file=sys.stderr)  # noqa: T201
        return 1
    return 0


def main() -> None:
    """The console script."""
    from dm.task import operators, tracked_structure
    from dm.task.precheck import prechecks
    from dm.task.progress import demand_sole_run, first_unit, forget_progress, verify_source
    from dm.task.start_time import begin_at, place_of

    progress = ProgressAtTarget(demand_sole_run, operators.operate, tracked_structure.operate)
    servers = Servers(verify_source, prechecks, forget_progress, place_of, begin_at, progress)
    sys.exit(run(Parts(servers, first_unit)))


if __name__ == "__main__":
    main()
