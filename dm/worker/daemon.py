"""`dm-worker`: the process that supervises tasks and answers `dmctl`.

The servers of the API: uvicorn's, but told when they are to end, instead of looking ten times a second.

Each socket has a server of its own. So it is the application that a socket was given that decides whether a request
there needs the token, and nothing that the request says of itself. What a connection may take is in
`dm/worker/connection.py`.
"""

from __future__ import annotations

import argparse
import asyncio
import ipaddress
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import structlog
import uvicorn
from starlette.types import ASGIApp

from dm.clock import SystemClock
from dm.cluster.membership import ClusterOptions
from dm.errors import DMError
from dm.private_process import keep_to_itself
from dm.task import host_process
from dm.task.host_process import HOST_COMMAND
from dm.task.log import configure
from dm.text import visible
from dm.worker.access import LocalAccess, TokenDemanded, Tokens
from dm.worker.api import create_app, create_metrics_app
from dm.worker.audit import AuditLog
from dm.worker.connection import BACKLOG, CertificateFiles, LimitedConnection, encrypting, raise_descriptors
from dm.worker.exchange import TlsFiles
from dm.worker.forwarding import Forwarding
from dm.worker.home import HOME_TAKEN_STATUS, Home
from dm.worker.hosts import PATIENCE_SECONDS, Hosts
from dm.worker.installed import installed_version
from dm.worker.loop import Loop
from dm.worker.metrics import Metrics
from dm.worker.operations import Operations
from dm.worker.options import parser
from dm.worker.page.application import PageBesideApi, create_page
from dm.worker.registry import Registry
from dm.worker.several_hosts import cluster_options, joined_cluster, shared_registry
from dm.worker.supervisor import Locate, Supervisor
from dm.worker.verb_work import ProgressAtTarget, Servers


@dataclass(frozen=True, slots=True)
class DaemonParts:
    """What a daemon is put together from besides itself; tests bring units of their own."""

    servers: Servers
    first_unit: Locate
    host_command: Sequence[str] = HOST_COMMAND
    patience: float = PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Ports:
    """Where it listens besides the socket in its home: host and port, each."""

    api: tuple[str, int] | None = None
    metrics: tuple[str, int] | None = None
    certificate: CertificateFiles | None = None  # of both

    @property
    def shown(self) -> Path | None:
        """The file of the certificate."""
        return None if self.certificate is None else self.certificate.certificate

    @property
    def files(self) -> TlsFiles | None:
        """What other members are shown, and what their certificates come from."""
        shown = self.certificate
        return None if shown is None else TlsFiles(str(shown.authority), str(shown.certificate), str(shown.key))


def serve(
    home: Home,
    parts: DaemonParts,
    ports: Ports,
    stop: threading.Event,
    settings: Mapping[str, str] | None = None,
    cluster: ClusterOptions | None = None,
) -> None:
    """Be the daemon until `stop` is set; units come to rest before this returns."""
    home.create()
    with ExitStack() as stack:
        stack.enter_context(home.locked())
        host_process.start_ahead(parts.host_command)  # it imports while this process begins
        if os.environ.get("NOTIFY_SOCKET"):
            home.service_mark.touch(mode=0o600)
        else:
            home.service_mark.unlink(missing_ok=True)
        clock = SystemClock()
        membership = None if cluster is None else stack.enter_context(joined_cluster(cluster, home, clock))
        registry = Registry(home.registry) if membership is None else shared_registry(membership, home)
        stack.callback(registry.close)
        loop = Loop(clock)
        hosts = Hosts(clock, loop.post, home.log_of, parts.host_command, parts.patience)
        supervisor = Supervisor(home, registry, hosts, loop.post, clock, parts.first_unit)
        if membership is not None:
            supervisor.alone, supervisor.worker, supervisor.mine = False, membership.name, membership.owns_source
            said = {"member": membership.name, "cluster": membership.record.number}
            supervisor.run_by = supervisor.run_by.model_copy(update=said)
        loop.start(supervisor.tick)
        stack.callback(loop.end)
        stack.callback(lambda: loop.call(hosts.end))
        cluster_part = None if membership is None else (membership, Forwarding(membership, ports.files))
        operations = Operations(loop, supervisor, parts.servers, stop.set, cluster_part)
        if settings:
            operations.config.change(settings)
        stack.callback(operations.end)
        if registry.sources():  # else there is nothing to begin with, and nobody needs to wait
            host_process.wait_for_imports(parts.host_command)
        operations.take_up()
        metrics = Metrics(loop, supervisor, ports.shown, operations.cut_overs, membership)
        token = "" if membership is None else membership.record.token
        with _listening(home, operations, metrics, ports, token):
            tell_service_manager("READY=1")
            stop.wait()
            tell_service_manager("STOPPING=1")


def tell_service_manager(state: str) -> None:
    """Say to systemd how far it is, where it wants to know (sd_notify(3), `Type=notify`)."""
    address = os.environ.get("NOTIFY_SOCKET", "")
    if not address:
        return
    name = f"\0{address[1:]}" if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as manager:
            manager.sendto(state.encode(), name)
    except OSError:
        structlog.get_logger().exception("the service manager was not told", state=state)


@contextmanager
def _listening(home: Home, operations: Operations, metrics: Metrics, ports: Ports, members: str = "") -> Iterator[None]:
    """Answer in the home, and at the ports where a request brings the token."""
    with ExitStack() as stack:
        audit = AuditLog(home.audit_log, told=operations.history.verb)
        stack.callback(audit.close)
        app = create_app(operations.routed, operations.openapi, metrics, audit, operations.of_members)
        local = stack.enter_context(_local_socket(home))
        served: list[tuple[ASGIApp, socket.socket, str, type[LimitedConnection]]] = [
            (LocalAccess(app), local, "api", LimitedConnection)
        ]
        where: dict[str, str] = {}
        if ports.api is not None or ports.metrics is not None:
            tokens = Tokens.kept(home, members)
            page = create_page(operations, tokens, audit, SystemClock())
            wanted: Sequence[tuple[str, ASGIApp, tuple[str, int] | None]] = (
                ("listen", PageBesideApi(TokenDemanded(app, tokens), page), ports.api),
                ("metrics", TokenDemanded(create_metrics_app(metrics), tokens), ports.metrics),
            )
            for name, answering, port in wanted:
                if port is not None:
                    protocol = LimitedConnection if ports.certificate is None else encrypting(ports.certificate)
                    listener = stack.enter_context(_port(port))
                    served.append((answering, listener, name, protocol))
                    where[name] = _shown(*listener.getsockname()[:2])  # port 0 was replaced by a free one
        for answering, listener, name, protocol in served:
            stack.enter_context(serving(answering, listener, name, protocol))
        structlog.get_logger().info("serving", home=str(home.directory), version=installed_version(), **where)
        yield


@contextmanager
def _local_socket(home: Home) -> Iterator[socket.socket]:
    """The socket in the home; it is made anew, since a killed daemon leaves its name behind."""
    with ExitStack() as stack:
        path = stack.enter_context(home.socket_path())
        if os.path.lexists(path):
            os.unlink(path)
        local = stack.enter_context(socket.socket(socket.AF_UNIX))
        local.bind(path)
        os.chmod(path, 0o600)
        stack.callback(os.unlink, path)
        local.listen(BACKLOG)
        yield local


@contextmanager
def _port(address: tuple[str, int]) -> Iterator[socket.socket]:
    family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
    # Without the protocol's number asyncio leaves Nagle's algorithm on, and answers wait 40 ms for an acknowledgement.
    with socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind(address)
            listener.listen(BACKLOG)
        except OSError as error:
            raise DMError("port-unusable", address=_shown(*address), problem=error.strerror or str(error)) from None
        yield listener


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def listen_address(text: str, *, encrypted: bool) -> tuple[str, int]:
    """The host and port of `--listen` and `--metrics-addr`: any address with TLS, loopback without; raises DMError."""
    host, _, port = text.rpartition(":")
    try:
        address = ipaddress.ip_address("127.0.0.1" if host in ("", "localhost") else host.strip("[]"))
        if (encrypted or address.is_loopback) and 0 <= int(port) < 65536:
            return str(address), int(port)
    except ValueError:
        pass  # not an address or not a number: refused below like one that is not allowed
    raise DMError("listen-refused", address=text)


def _ports(options: argparse.Namespace) -> Ports:
    files = _certificate_of(options)
    api, metrics = (
        listen_address(text, encrypted=files is not None) if text else None
        for text in (options.listen, options.metrics_addr)
    )
    return Ports(api, metrics, files)


def _certificate_of(options: argparse.Namespace) -> CertificateFiles | None:
    if options.ssl_cert is None and options.ssl_key is None and options.ssl_ca is None:
        return None
    if options.ssl_cert is None or options.ssl_key is None:
        problem = "a port with TLS needs its certificate and the key of it"
        raise DMError("usage", problem=problem, hint="dm-worker --listen <address> --ssl-cert <file> --ssl-key <file>")
    return CertificateFiles(options.ssl_cert, options.ssl_key, options.ssl_ca)


def run(parts: DaemonParts, arguments: Sequence[str] | None = None) -> int:
    """The command with its arguments; returns the exit status."""
    options = parser().parse_args(arguments)
    keep_to_itself()
    configure(process="dm-worker")
    raise_descriptors()
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    named = {"log-level": options.log_level, "log-max-size": options.log_max_size,
             "log-max-backups": options.log_max_backups}  # fmt: skip
    given = {name: value for name, value in named.items() if value is not None}
    try:
        ports = _ports(options)
        where = {"DM_HOME": options.home} if options.home else os.environ
        cluster = cluster_options(options, ports.api, encrypted=ports.certificate is not None)
        serve(Home.of(where, options.secret_key_path), parts, ports, stop, given, cluster)
    except DMError as error:
        structlog.get_logger().error("dm-worker ends", error=error)
        print(visible(str(error)), file=sys.stderr)  # noqa: T201  the one thing a person at a terminal needs to see
        if error.name == "daemon-running":
            return HOME_TAKEN_STATUS
        return 2 if error.kind.error_class == "config" else 1
    except OSError as error:
        structlog.get_logger().exception("dm-worker ends")
        print(visible(f"dm-worker: {error}"), file=sys.stderr)  # noqa: T201
        return 1
    return 0


def main() -> None:
    """The console script."""
    from dm.task import binlog_verbs as tracked_structure
    from dm.task.precheck.run import prechecks
    from dm.task.precheck.source import verify_source
    from dm.task.progress import demand_readable, demand_sole_run, final_place, first_unit, forget_progress, hold_place
    from dm.task.start_and_end import begin_at, place_of, until_of

    progress = ProgressAtTarget(demand_sole_run, tracked_structure.operate_on_event, tracked_structure.change_structure)
    servers = Servers(
        verify_source,
        prechecks,
        forget_progress,
        place_of,
        begin_at,
        until_of,
        final_place,
        progress,
        demand_readable,
        hold_place,
    )
    sys.exit(run(DaemonParts(servers, first_unit)))


_TICK_SECONDS: Final = 1.0  # the `Date` of its answers is renewed then


class ApiServer(uvicorn.Server):
    """Serves until `end`."""

    _loop: asyncio.AbstractEventLoop | None = None
    _over: asyncio.Event

    async def main_loop(self) -> None:
        """What runs beside the connections."""
        self._over = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        while not await self.on_tick(0):
            with suppress(TimeoutError):
                await asyncio.wait_for(self._over.wait(), _TICK_SECONDS)

    def end(self) -> None:
        """Answer what is asked, and return from `run`; from any thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._over.set)


@contextmanager
def serving(
    app: ASGIApp, listener: socket.socket, name: str, protocol: type[LimitedConnection] = LimitedConnection
) -> Iterator[None]:
    """Answer what comes through a socket, in a thread of its own; at the end what was asked is still answered."""
    config = uvicorn.Config(
        app,
        http=protocol,
        backlog=BACKLOG,
        log_config=None,
        access_log=False,
        lifespan="off",
        ws="none",
        proxy_headers=False,  # else a client could name another scheme and address, on loopback by default
        server_header=False,
    )
    server = ApiServer(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.end()
        thread.join()


if __name__ == "__main__":
    main()
