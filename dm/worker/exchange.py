"""One request to a daemon and its answer: HTTP to a host and port, or over a Unix socket.

With Python's own client, since importing any other takes longer than the daemon takes to answer. Imported by the verbs
that ask something, not by `--help`.
"""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

from dm.errors import DMError

CONNECT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Paths of PEM files; a client's certificate may do for a token."""

    authority: str
    certificate: str = ""
    key: str = ""


class NotConnectedError(OSError):
    """Nobody listens there."""


class BrokenAnswerError(OSError):
    """Somebody listens, and what came is no answer in HTTP."""


class _Connection(http.client.HTTPConnection):
    def __init__(self, netloc: str, seconds: float, reach: Callable[[_Connection], None]) -> None:
        super().__init__(netloc, timeout=seconds)
        self._reach = reach

    def connect(self) -> None:
        """Reach it soon or not at all; the answer may take longer."""
        patience, self.timeout = self.timeout, CONNECT_SECONDS
        try:
            self._reach(self)
        except OSError as error:
            self.close()
            raise NotConnectedError(str(error)) from error
        except DMError:
            self.close()
            raise
        self.sock.settimeout(patience)


def encrypted(files: TlsFiles) -> Callable[[_Connection], None]:
    """What puts TLS between, and demands that the other end has a certificate of the CA for its address."""

    def encrypt(connection: _Connection) -> None:
        address = f"{connection.host}:{connection.port}"
        try:
            context = ssl.create_default_context(cafile=files.authority)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            if files.certificate:
                context.load_cert_chain(files.certificate, files.key or None)
        except (OSError, ValueError) as error:
            path = " with ".join(path for path in (files.authority, files.certificate, files.key) if path)
            raise DMError("client-certificate-unusable", path=path, cause=str(error)) from error
        try:
            connection.sock = context.wrap_socket(connection.sock, server_hostname=connection.host)
        except ssl.SSLError as error:
            raise DMError("listener-not-shown", address=address, cause=str(error)) from error

    return encrypt


def over_socket(path: str, request: tuple[str, str, object], seconds: float) -> tuple[int, bytes]:
    """Ask the daemon at a Unix socket: method, path, body; gives status and text. Raises OSError."""

    def reach(connection: _Connection) -> None:
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(path)

    return _exchange(_Connection("dm-worker", seconds, reach), request, {})


def over_port(
    address: str,
    request: tuple[str, str, object],
    headers: Mapping[str, str],
    seconds: float,
    demand: Callable[[_Connection], None],
) -> tuple[int, bytes]:
    """The same at `host:port`, with headers that say who asks.

    `demand` sees who listens before anything is sent, may put TLS between, and raises DMError.
    """
    netloc = urlsplit(address if "://" in address else f"http://{address}").netloc

    def reach(connection: _Connection) -> None:
        http.client.HTTPConnection.connect(connection)
        demand(connection)

    return _exchange(_Connection(netloc, seconds, reach), request, headers)


def _exchange(
    connection: _Connection, request: tuple[str, str, object], headers: Mapping[str, str]
) -> tuple[int, bytes]:
    method, target, body = request
    content = None if body is None else json.dumps(body).encode()
    kind = {} if body is None else {"Content-Type": "application/json"}
    try:
        # A daemon that was told to end may answer, and be gone, before it is sent the body.
        with suppress(BrokenPipeError, ConnectionResetError):
            connection.request(method, target, content, {**headers, **kind})
        response = connection.getresponse()
        return response.status, response.read()
    except (http.client.HTTPException, UnicodeError) as error:
        raise BrokenAnswerError(f"{type(error).__name__}: {error}") from error
    finally:
        connection.close()
