"""A client of etcd's v3 API through its JSON gateway, which every etcd since 3.4 serves at the client port.

Keys and values are Base64 there, 64-bit numbers are strings, and a watch is a response that never ends, one JSON object
per line (etcd's documentation: "gRPC gateway"). A user logs in with a password for a token, which the gateway takes as
`Authorization`. The gateway can't log in by a certificate's name.

**No call blocks for long.** Each has a deadline for all endpoints together. Once none has answered, calls fail at once
until the lease's renewal or the watch, which go on trying (`persistent`), get through. So a daemon whose etcd is gone
does not wait on each change of a stage.

**No change is sent twice.** A read goes on to the next endpoint on any failure. A change does so only where it can't
have been applied: nobody listened, or etcd said that it has no leader. Whether a change whose answer is missing was
applied, nobody knows. The caller is told, and looks (dm/cluster/mirror.py).
"""

from __future__ import annotations

import base64
import http.client
import json
import select
import socket
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from dm.clock import Clock
from dm.cluster.etcd_access import EtcdAccess
from dm.errors import DMError

CALL_SECONDS: Final = 3.0
_CONNECT_SECONDS: Final = 1.5  # of one endpoint, so that another one still has its time
_PAGE: Final = 500  # keys of a read; the gateway takes messages up to 4 MiB
_AT_ONCE: Final = 100  # changes; etcd takes 128 operations in a transaction, unless it is told otherwise
_UNAVAILABLE: Final = 14  # a status code of gRPC
# What says that the change was not applied (etcd: api/v3rpc/rpctypes/error.go).
_NOT_APPLIED: Final = ("no leader", "not capable", "leader changed", "server stopped", "too many requests")
_STALE_LOGIN: Final = ("invalid auth token", "revision of auth store is old")
# A connection that nothing comes through any more is noticed after twenty seconds.
_KEEPALIVE: Final = ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))


@dataclass(frozen=True, slots=True)
class Entry:
    """A value with the revision that wrote it and the lease that it is bound to (0: none)."""

    value: str
    revision: int
    lease: int = 0


@dataclass(frozen=True, slots=True)
class KeyChange:
    """A key with what it is to have, or has now; None: it is gone."""

    key: str
    value: str | None
    lease: int = 0


@dataclass(frozen=True, slots=True)
class KeysFound:
    """All keys of a prefix at one revision."""

    revision: int
    entries: dict[str, Entry]


@dataclass(frozen=True, slots=True)
class WatchBatch:
    """Changes in the order of their revisions; `begins`: none yet, the watch is in place.

    `compacted`: those since the wanted revision are not kept any more.
    """

    changes: tuple[tuple[str, Entry | None, int], ...]
    begins: bool = False
    compacted: bool = False


T = TypeVar("T")


def in_parts(changes: Iterable[T]) -> Iterator[list[T]]:
    """As many at once as a transaction of etcd takes."""
    waiting = iter(changes)
    while part := list(islice(waiting, _AT_ONCE)):
        yield part


class _RefusedByEtcd(Exception):
    """An answer that says no."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


class _NotSentError(OSError):
    """Nothing has reached the other end."""


class Etcd:
    """One etcd, by all its endpoints; any thread may call. Every method raises DMError."""

    def __init__(self, access: EtcdAccess, clock: Clock) -> None:
        self._access = access
        self._clock = clock
        self._context = access.context()
        self._lock = threading.Lock()
        self._idle: dict[str, list[http.client.HTTPConnection]] = {}
        self._first = 0  # the endpoint that answered last
        self._token = ""
        self._down = ""  # why no endpoint answers
        self._failing: set[str] = set()  # the endpoints that did not answer when they were asked last
        self._watched: http.client.HTTPConnection | None = None
        self._watched_at = ""
        self._closed = False
        self.requests = 0  # that were sent, those of the watch and the lease included

    @property
    def trouble(self) -> str:
        """Why it can't be reached, as far as is known; empty while it answers."""
        return self._down

    def read(self, prefix: str) -> KeysFound:
        """All keys below a prefix, as of one revision."""
        entries: dict[str, Entry] = {}
        start, end, revision = prefix.encode(), _after(prefix.encode()), 0
        while True:
            asked = {"key": _b64(start), "range_end": _b64(end), "limit": str(_PAGE), "revision": str(revision)}
            answer = self._call("kv/range", asked, safe=True, persistent=True)
            revision = revision or _revision(answer)
            found = answer.get("kvs", [])
            entries |= {_unb64(each["key"]): _entry(each) for each in found}
            if not answer.get("more") or not found:
                return KeysFound(revision, entries)
            start = base64.b64decode(found[-1]["key"]) + b"\0"

    def write(
        self, expected: Mapping[str, int], changes: Sequence[KeyChange], values: Mapping[str, str] | None = None
    ) -> int | None:
        """Make all changes in one transaction if each key of `expected` was last written by that revision.

        Revision 0: the key is not there. `values`: what other keys must have. Gives the transaction's revision; None
        where a key is not as expected.
        """
        compare = [
            {"key": _b64(key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}
            for key, revision in expected.items()
        ]
        compare += [
            {"key": _b64(key), "target": "VALUE", "result": "EQUAL", "value": _b64(value)}
            for key, value in (values or {}).items()
        ]
        success = [
            {"request_delete_range": {"key": _b64(each.key)}}
            if each.value is None
            else {"request_put": {"key": _b64(each.key), "value": _b64(each.value), "lease": str(each.lease)}}
            for each in changes
        ]
        answer = self._call("kv/txn", {"compare": compare, "success": success}, safe=False)
        return _revision(answer) if answer.get("succeeded") else None

    def grant(self, seconds: int) -> int:
        """A new lease."""
        answer = self._call("lease/grant", {"TTL": str(seconds)}, safe=True, persistent=True)
        return int(answer["ID"])

    def renew(self, lease: int) -> bool:
        """Have the lease last its whole time from now on; False: it is gone."""
        answer = self._call("lease/keepalive", {"ID": str(lease)}, safe=True, persistent=True)
        return int(answer.get("result", {}).get("TTL", 0)) > 0

    def revoke(self, lease: int) -> None:
        """End a lease with all that is bound to it; one that is gone already is no error."""
        try:
            self._call("lease/revoke", {"ID": str(lease)}, safe=True)
        except DMError as error:
            if "lease not found" not in str(error):
                raise

    def watch(self, prefix: str, revision: int, stop: threading.Event) -> Iterator[WatchBatch]:
        """Changes below a prefix from this revision on, until `stop` and `interrupt`; raises where it breaks off."""
        key = prefix.encode()
        asked = {"key": _b64(key), "range_end": _b64(_after(key)), "start_revision": str(revision)}
        connection, response = self._open_watch({"create_request": asked})
        try:
            while not stop.is_set() and (line := response.readline()):
                said = json.loads(line, object_hook=_EtcdObject)
                if "error" in said:
                    raise DMError("etcd-unreachable", problem=str(said["error"].get("message", said["error"])))
                batch = _batch(said["result"])
                if batch is not None:
                    yield batch
            if not stop.is_set():
                raise DMError("etcd-unreachable", problem="the watch ended")
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            # AttributeError: http.client's own, when another thread has closed the connection meanwhile.
            if not stop.is_set():
                raise DMError("etcd-unreachable", problem=str(error) or type(error).__name__) from error
        finally:
            with self._lock:
                self._watched, self._watched_at = None, ""
            connection.close()

    def interrupt(self) -> None:
        """Have the watch begin anew, or end; from any thread."""
        with self._lock:
            watched = self._watched
        sock = None if watched is None else watched.sock
        if sock is not None:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Give the connections back, and keep none from now on."""
        self.interrupt()
        with self._lock:
            self._closed = True
            for idle in self._idle.values():
                for connection in idle:
                    connection.close()
            self._idle.clear()

    # calls

    def _call(self, path: str, body: dict[str, Any], *, safe: bool, persistent: bool = False) -> dict[str, Any]:
        """`safe`: sending it twice does no harm."""
        if self._down and not persistent:
            raise DMError("etcd-unreachable", problem=self._down)
        try:
            return self._answer(path, body, safe=safe)
        except _RefusedByEtcd as error:
            if not any(words in error.message for words in _STALE_LOGIN):
                raise DMError("etcd-refused", problem=error.message) from None
        self._token = ""
        try:
            return self._answer(path, body, safe=safe)
        except _RefusedByEtcd as error:
            raise DMError("etcd-refused", problem=error.message) from None

    def _answer(self, path: str, body: dict[str, Any], *, safe: bool) -> dict[str, Any]:
        deadline = self._clock.monotonic() + CALL_SECONDS
        problem = "no time was left"
        endpoints = self._in_turn()
        for number, endpoint in enumerate(endpoints):
            left = (deadline - self._clock.monotonic()) / (len(endpoints) - number)
            if left <= 0:
                break
            try:
                if self._access.user and not self._token:
                    self._token = self._log_in(endpoint, left)
                answer = self._exchange(endpoint, path, body, left)
            except _NotSentError as error:
                problem = f"{endpoint}: {error}"
                self._note_failing(endpoint)
                continue
            except (OSError, http.client.HTTPException, ValueError) as error:
                problem = f"{endpoint}: {error or type(error).__name__}"
                self._note_failing(endpoint)
                if not safe:
                    break
                continue
            except _RefusedByEtcd as error:
                if error.code != _UNAVAILABLE and "timed out" not in error.message:
                    raise
                problem = f"{endpoint}: {error.message}"
                if not safe and not any(words in error.message for words in _NOT_APPLIED):
                    break
                continue
            with self._lock:
                self._first, self._down = self._access.endpoints.index(endpoint), ""
                self._failing.discard(endpoint)
                frozen = self._watched_at in self._failing
            if frozen:  # its watch would say nothing until the connection breaks
                self.interrupt()
            return answer
        with self._lock:
            self._down = problem
            self._first = (self._first + 1) % len(self._access.endpoints)
        raise DMError("etcd-unreachable", problem=problem)

    def _note_failing(self, endpoint: str) -> None:
        with self._lock:
            self._failing.add(endpoint)

    def _in_turn(self) -> list[str]:
        endpoints = self._access.endpoints
        return [*endpoints[self._first :], *endpoints[: self._first]]

    def _log_in(self, endpoint: str, seconds: float) -> str:
        body = {"name": self._access.user, "password": self._access.password}
        return str(self._exchange(endpoint, "auth/authenticate", body, seconds)["token"])

    def _exchange(self, endpoint: str, path: str, body: dict[str, Any], seconds: float) -> dict[str, Any]:
        connection = self._taken(endpoint, seconds)
        try:
            response = self._requested(connection, path, body)
            answer = _said(response.status, response.read())
        except BaseException as error:
            if not isinstance(error, _RefusedByEtcd):
                connection.close()
            else:
                self._give_back(endpoint, connection)
            raise
        self._give_back(endpoint, connection)
        return answer

    def _requested(
        self, connection: http.client.HTTPConnection, path: str, body: dict[str, Any]
    ) -> http.client.HTTPResponse:
        headers = {"Content-Type": "application/json", "Grpc-Metadata-hasleader": "true"}
        if self._token and path != "auth/authenticate":
            headers["Authorization"] = self._token
        self.requests += 1
        connection.request("POST", f"/v3/{path}", json.dumps(body).encode(), headers)
        return connection.getresponse()

    def _taken(self, endpoint: str, seconds: float) -> http.client.HTTPConnection:
        """A connection that was used before and is still open, else a new one."""
        while True:
            with self._lock:
                idle = self._idle.setdefault(endpoint, [])
                connection = idle.pop() if idle else None
            if connection is None:
                return self._connected(endpoint, seconds)
            if connection.sock is not None and not _is_readable(connection.sock):
                connection.sock.settimeout(seconds)
                return connection
            connection.close()

    def _give_back(self, endpoint: str, connection: http.client.HTTPConnection) -> None:
        with self._lock:
            if not self._closed:
                self._idle.setdefault(endpoint, []).append(connection)
                return
        connection.close()

    def _connected(self, endpoint: str, seconds: float | None) -> http.client.HTTPConnection:
        parts = urlsplit(endpoint)
        assert parts.hostname is not None
        patience = _CONNECT_SECONDS if seconds is None else min(seconds, _CONNECT_SECONDS)
        if parts.scheme == "https":
            connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.hostname, parts.port, timeout=patience, context=self._context
            )
        else:
            connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=patience)
        try:
            connection.connect()
            for option, value in _KEEPALIVE:
                connection.sock.setsockopt(socket.IPPROTO_TCP, option, value)
            connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection.sock.settimeout(seconds)
        except OSError as error:
            connection.close()
            raise _NotSentError(str(error)) from error
        return connection

    def _open_watch(self, body: dict[str, Any]) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:
        problem = "there is no endpoint"
        for endpoint in self._in_turn():
            try:
                if self._access.user and not self._token:
                    self._token = self._log_in(endpoint, CALL_SECONDS)
                connection = self._connected(endpoint, CALL_SECONDS)
            except (OSError, http.client.HTTPException, ValueError, _RefusedByEtcd) as error:
                problem = f"{endpoint}: {error}"
                continue
            try:
                response = self._requested(connection, "watch", body)
                if response.status != http.client.OK:
                    _said(response.status, response.read())
                connection.sock.settimeout(None)  # it says nothing as long as nothing changes
                with self._lock:
                    self._watched, self._watched_at = connection, endpoint
                    self._failing.discard(endpoint)
                return connection, response
            except (OSError, http.client.HTTPException, ValueError, _RefusedByEtcd) as error:
                connection.close()
                self._token = ""
                problem = f"{endpoint}: {error}"
        raise DMError("etcd-unreachable", problem=problem)


def _is_readable(sock: socket.socket) -> bool:
    """Whether there is something to read, if only the end; `select` takes no descriptor above 1023."""
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return bool(poll.poll(0))


class _EtcdObject(dict[str, Any]):
    """An object of etcd's JSON; raises DMError for a field that must be there and is not."""

    def __missing__(self, key: str) -> Any:
        raise DMError("etcd-unreachable", problem=f"an answer lacks `{key}`")


def _said(status: int, text: bytes) -> dict[str, Any]:
    """An answer, of a stream its first line; raises ValueError for what is none, and what etcd refuses."""
    answer = json.loads(text.splitlines()[0] if text else b"", object_hook=_EtcdObject)
    if not isinstance(answer, dict):
        raise ValueError("the answer is no object of JSON")  # noqa: TRY004  as of one that is no JSON
    problem = answer.get("error")
    if status == http.client.OK and problem is None:
        return answer
    if isinstance(problem, dict):
        raise _RefusedByEtcd(int(problem.get("grpc_code", 0)), str(problem.get("message", "")))
    raise _RefusedByEtcd(int(answer.get("code", 0)), str(answer.get("message", problem)))


def _batch(result: dict[str, Any]) -> WatchBatch | None:
    if result.get("canceled"):
        if "compact_revision" in result:
            return WatchBatch((), compacted=True)
        raise DMError("etcd-unreachable", problem=str(result.get("cancel_reason", "the watch was ended")))
    if result.get("created"):
        return WatchBatch((), begins=True)
    changes = []
    for event in result.get("events", ()):
        known = event["kv"]
        gone = event.get("type") == "DELETE"
        changes.append((_unb64(known["key"]), None if gone else _entry(known), int(known["mod_revision"])))
    return WatchBatch(tuple(changes)) if changes else None


def _entry(found: dict[str, Any]) -> Entry:
    return Entry(_unb64(found.get("value", "")), int(found["mod_revision"]), int(found.get("lease", 0)))


def _revision(answer: dict[str, Any]) -> int:
    return int(answer["header"]["revision"])


def _after(prefix: bytes) -> bytes:
    """The first key that does not have this prefix."""
    return prefix[:-1] + bytes([prefix[-1] + 1])


def _b64(text: str | bytes) -> str:
    return base64.b64encode(text.encode() if isinstance(text, str) else text).decode()


def _unb64(text: str) -> str:
    return base64.b64decode(text).decode()
