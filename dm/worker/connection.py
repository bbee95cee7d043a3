"""Connections of the API: how many a socket has, and how long one may take to say what it wants.

Every user of the machine can connect to a port, and whoever has only connected has shown no token yet. So what such
connections hold is bounded: their number, and with it the descriptors of this process; the time in which a request
must be there whole; its size (`LimitedBody`). A port at its limit gives up the connection that has waited the longest
for its request. So connections that ask nothing keep nobody out, and a request that is there whole is answered.

Each socket counts for itself: what happens at a port takes nothing from the Unix socket, which its user alone can open.
For that the process needs more descriptors than all sockets together may hold (`raise_descriptors`).

At a port with TLS a connection counts from the moment when it is there, before it has shown a certificate: asyncio
would keep any number of handshakes waiting, each for a minute. So the plain connection is accepted as any other, and
is encrypted by its protocol. The certificate of the port is read again when its file has changed, since certificates
are renewed while tasks run.
"""

from __future__ import annotations

import asyncio
import os
import resource
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn

import structlog
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from dm.errors import DMError
from dm.worker.access import CERTIFICATE
from dm.worker.refusal import refusal

MOST_CONNECTIONS: Final = 64  # of a socket; asyncio accepts as many as BACKLOG more before one is given up
BACKLOG: Final = 16
REQUEST_SECONDS: Final = 30.0  # for all of a request; a body of the largest size comes through a slow tunnel in that
LARGEST_BODY: Final = 16 << 20
DESCRIPTORS: Final = 1 << 16


def raise_descriptors() -> None:
    """Let this process and its children open as many files as the system lets them, up to DESCRIPTORS."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class LimitedConnection(H11Protocol):
    """One connection; given up when its request does not come, or when others need its place."""

    _given_up: asyncio.TimerHandle | None = None  # set while a request is not there whole
    _waits_since = 0.0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request; make room where there are too many."""
        super().connection_made(transport)
        self._make_room()

    def _make_room(self) -> None:
        self._wait()
        others = [each for each in self.connections if isinstance(each, LimitedConnection) and each.waits]
        if len(self.connections) > MOST_CONNECTIONS:
            min(others, key=lambda each: each._waits_since).give_up()

    def connection_lost(self, exc: Exception | None) -> None:
        """It waits no more."""
        self._wait_no_more()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """A part of a request, perhaps the last one."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Wait for the next request, which may be there already."""
        self._wait()
        super().on_response_complete()
        self._look()

    @property
    def waits(self) -> bool:
        """Whether its request is not there whole."""
        return self._given_up is not None

    def give_up(self) -> None:
        """Close it without a word."""
        self._wait_no_more()
        self.connections.discard(self)  # at once: the transport closes in the loop's next round
        self.transport.abort()

    def _look(self) -> None:
        cycle = self.cycle
        if cycle is not None and not cycle.more_body and not cycle.response_complete:
            self._wait_no_more()

    def _wait(self) -> None:
        self._wait_no_more()
        self._waits_since = self.loop.time()
        self._given_up = self.loop.call_later(REQUEST_SECONDS, self.give_up)

    def _wait_no_more(self) -> None:
        if self._given_up is not None:
            self._given_up.cancel()
            self._given_up = None


@dataclass(frozen=True, slots=True)
class CertificateFiles:
    """What a port with TLS shows, and the CA of its clients' certificates where it takes those."""

    certificate: Path
    key: Path
    authority: Path | None = None


class PortCertificate:
    """The TLS context of a port, as of now; raises DMError where it can't be made at first."""

    def __init__(self, files: CertificateFiles) -> None:
        self._files = files
        self._seen = self._state()
        self._context = self._made()

    def context(self) -> ssl.SSLContext:
        """That of the files as they are; where they can't be read any more, the one before."""
        seen = self._state()
        if seen != self._seen:
            self._seen = seen
            try:
                self._context = self._made()
            except DMError as error:
                structlog.get_logger().error("the certificate from before is shown on", error=error)
        return self._context

    def _state(self) -> list[tuple[int, int, int] | None]:
        return [_state_of(path) for path in (self._files.certificate, self._files.key, self._files.authority)]

    def _made(self) -> ssl.SSLContext:
        files = self._files
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        try:
            context.load_cert_chain(files.certificate, files.key, password=_no_password)
        except (OSError, ValueError) as error:
            path = f"{files.certificate} with the key {files.key}"
            raise DMError("certificate-unusable", path=path, cause=str(error)) from error
        if files.authority is not None:
            try:
                context.load_verify_locations(files.authority)
            except (OSError, ValueError) as error:
                raise DMError("certificate-unusable", path=files.authority, cause=str(error)) from error
            context.verify_mode = ssl.CERT_OPTIONAL  # a token does as well
        return context


def _state_of(path: Path | None) -> tuple[int, int, int] | None:
    try:
        found = None if path is None else os.stat(path)
    except OSError:
        return None
    return None if found is None else (found.st_ino, found.st_mtime_ns, found.st_size)


def _no_password() -> NoReturn:
    raise ValueError("the key is encrypted, and dm-worker asks nobody for its password")


class EncryptedConnection(LimitedConnection):
    """One connection with TLS; a subclass names the certificate."""

    certificate: ClassVar[PortCertificate]
    _handshake: asyncio.Task[None] | None = None
    _early: bytes | None = b""  # what came with the end of the handshake, before this was told that it has ended

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it, and encrypt it before anything is read."""
        transport.pause_reading()
        self.transport = transport
        self.connections.add(self)
        self._make_room()
        if not transport.is_closing():  # else there was no room for it
            self._handshake = self.loop.create_task(self._encrypt(transport))

    async def _encrypt(self, transport: asyncio.Transport) -> None:
        try:
            encrypted = await self.loop.start_tls(
                transport, self, self.certificate.context(), server_side=True, ssl_handshake_timeout=REQUEST_SECONDS
            )
        except (OSError, ssl.SSLError) as error:
            structlog.get_logger().info("no handshake", error=error)
            encrypted = None
        if encrypted is None or transport.is_closing():
            self.transport = encrypted or transport
            self.give_up()
            return
        certificate: Any = encrypted.get_extra_info("peercert") or {}
        names = [value for part in certificate.get("subject", ()) for name, value in part if name == "commonName"]
        if len(names) == 1:
            self.app_state = {**self.app_state, CERTIFICATE: names[0]}
        super().connection_made(encrypted)
        early, self._early = self._early, None
        if early:
            super().data_received(early)

    def data_received(self, data: bytes) -> None:
        """A part of a request."""
        if self._early is None:
            super().data_received(data)
        else:
            self._early += data


def encrypting(files: CertificateFiles) -> type[EncryptedConnection]:
    """The protocol of a port with this certificate; raises DMError."""
    return type("PortConnection", (EncryptedConnection,), {"certificate": PortCertificate(files)})


class LimitedBody:
    """An application that is asked only what is not too large; a body whose size is not said is counted."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 413 before its body is read."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = dict(scope["headers"])
        size = int(headers.get(b"content-length", b"0"))  # digits: h11 has seen to that
        came: list[Message] = []
        if b"transfer-encoding" in headers:
            while size <= LARGEST_BODY and (not came or came[-1].get("more_body", False)):
                came.append(await receive())
                size += len(came[-1].get("body", b""))
        if size > LARGEST_BODY:
            error = DMError("request-too-large", most=LARGEST_BODY >> 20)
            await refusal(scope["path"], error, 413, {"connection": "close"})(scope, receive, send)
            return

        async def again() -> Message:
            return came.pop(0) if came else await receive()

        await self._app(scope, again, send)
