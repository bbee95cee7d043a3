"""Who asks, and what the asker may do.

The daemon's Unix socket is its user's alone, by the permissions of the file: what comes through it may do all. A port
is open to others, a port with TLS perhaps to a network. So a request there brings a token, or its connection a
certificate of the CA that the port was given, and each of these stands for a name and a permission:

- `$DM_HOME/token` is the daemon's user's own and may do all. `dmctl` takes it by itself.
- `$DM_HOME/metrics-token` opens `/metrics` for reading and nothing else: Prometheus is another user as a rule.
- `$DM_HOME/tokens` has a line for each of the others, as `dmctl token` writes them: a name, one of three permissions,
  and what shows that it is the bearer: the SHA-256 of a token, or the common name of a certificate. A token has 256
  random bits, so its plain hash tells nobody what it is. The file is read again when it has changed: who was struck out
  is refused with the next request.

Members of a cluster show each other a token that etcd keeps for them (dm/worker/forwarding.py).

With the permission `change` one can do all that the daemon's user can do: a task file names files that the daemon
reads, and programs that it starts (`spark.java-home`).

A comparison takes the same time wherever two tokens differ. Neither a token nor what came in its place is in a log or
an answer. A file of tokens that can't be read opens nothing (never: everything).
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
import stat
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, Self, cast

import structlog
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.verbs.declaration import CHANGES, Permission
from dm.worker.home import Home, demand_own
from dm.worker.refusal import refusal

METRICS_PATH: Final = "/metrics"
_BYTES: Final = 32
_FEWEST_CHARACTERS: Final = 32  # of a token that a person wrote there
_REQUESTER: Final = "dm.requester"  # in a request's scope
CERTIFICATE: Final = "certificate"  # in the state of a request's scope: the common name that its connection has shown
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")
_LEVELS: Final = tuple(Permission)

Proof = Literal["sha256", "certificate"]


@dataclass(frozen=True, slots=True)
class Requester:
    """Who asks: a name for the audit log, and what it may do."""

    name: str
    permission: Permission

    def may(self, wanted: Permission) -> bool:
        """Each permission includes those before it."""
        return _LEVELS.index(wanted) <= _LEVELS.index(self.permission)


LOCAL: Final = Requester("local socket", CHANGES)
OWN: Final = Requester("token", CHANGES)
MEMBER: Final = Requester("another member", CHANGES)  # of the same cluster, for somebody whom it has asked for a token


def requester_of(scope: Scope) -> Requester | None:
    """Who asks, where that is known."""
    return cast("Requester | None", scope.get(_REQUESTER))


def bears(scope: Scope, requester: Requester) -> None:
    """Note who asks, once it is known."""
    scope[_REQUESTER] = requester


def demanding(permission: Permission) -> Callable[[Request], None]:
    """What a route asks before it looks at what it was sent; raises DMError."""

    def demand(request: Request) -> None:
        requester = requester_of(request.scope)
        if requester is None or not requester.may(permission):
            name = "nobody" if requester is None else requester.name
            has = "no permission" if requester is None else f"the permission `{requester.permission.value}`"
            raise DMError("permission-missing", bearer=name, has=has, wanted=permission.value)

    return demand


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of one daemon and the file that holds it."""

    path: Path
    text: str = field(repr=False)

    @classmethod
    def kept(cls, path: Path) -> Self:
        """The token in the file, which is made where it is missing; raises DMError."""
        if not os.path.lexists(path):
            try:
                write_atomically(path, f"{secrets.token_urlsafe(_BYTES)}\n".encode(), durable=True)
            except OSError as error:
                raise DMError("token-unusable", path=path, problem="it can't be made", cause=str(error)) from error
        text = _private_text(path, "token-unusable").strip()
        if len(text) < _FEWEST_CHARACTERS:
            raise DMError("token-unusable", path=path, problem=f"it has fewer than {_FEWEST_CHARACTERS} characters")
        return cls(path, text)

    def is_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers brings the token."""
        brought = _brought(headers)
        return brought is not None and hmac.compare_digest(brought, self.text.encode())


def _private_text(path: Path, error_name: str) -> str:
    """What a file of the daemon's user says; raises DMError for one that others may use."""
    try:
        with path.open(encoding="ascii") as file:
            found = os.fstat(file.fileno())
            demand_own(found, path)
            mode = stat.S_IMODE(found.st_mode)
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        raise DMError(error_name, path=path, problem="it can't be read", cause=str(error)) from error
    if mode & 0o077:
        raise DMError(error_name, path=path, problem=f"its mode is {mode:04o}, others may use it")
    return text


def _brought(headers: Iterable[tuple[bytes, bytes]]) -> bytes | None:
    """The token of a request; none where two are sent, since which one is meant is not for us to choose."""
    values = [value for name, value in headers if name.lower() == b"authorization"]
    if len(values) != 1:
        return None
    scheme, _, credentials = values[0].partition(b" ")
    return credentials.strip() if scheme.lower() == b"bearer" else None


@dataclass(frozen=True, slots=True)
class NamedAccess:
    """A line of the file of tokens."""

    name: str
    permission: Permission
    proof: Proof
    value: str = field(repr=False)  # the hash in hexadecimal digits, or the common name
    created: str

    def line(self) -> str:
        """As it stands in the file."""
        return f"{self.name} {self.permission.value} {self.created} {self.proof}:{self.value}\n"

    @classmethod
    def read(cls, line: str) -> Self:
        """From a line; raises ValueError."""
        name, permission, created, shown = line.split(maxsplit=3)
        proof, colon, value = shown.strip().partition(":")
        if not colon or not value or _NAME.fullmatch(name) is None:
            raise ValueError("it is no line of this file")
        if proof == "sha256":
            if re.fullmatch("[0-9a-f]{64}", value) is None:
                raise ValueError("its hash has not 64 hexadecimal digits")
            return cls(name, Permission(permission), "sha256", value, created)
        if proof == "certificate":
            return cls(name, Permission(permission), "certificate", value, created)
        raise ValueError("what shows the bearer is neither sha256 nor certificate")


class NamedTokens:
    """The file of tokens, as of now."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._seen: tuple[int, int, int] | None = None
        self._known: Sequence[NamedAccess] = ()

    def listed(self) -> Sequence[NamedAccess]:
        """Its lines; raises DMError."""
        try:
            text = _private_text(self._path, "tokens-unusable") if os.path.lexists(self._path) else ""
            lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
            found = [NamedAccess.read(line) for line in lines]
        except ValueError as error:
            raise DMError(
                "tokens-unusable", path=self._path, problem="a line can't be read", cause=str(error)
            ) from None
        return found

    def create(self, name: str, permission: Permission, now: float, certificate: str = "") -> str:
        """Add a line; gives the token, none for a certificate. Raises DMError."""
        if _NAME.fullmatch(name) is None:
            raise DMError("bearer-name-wrong", bearer=name)
        if re.search(r"[\x00-\x1f\x7f]|[^\x00-\x7f]", certificate):
            raise DMError("bearer-name-wrong", bearer=certificate)
        token = "" if certificate else secrets.token_urlsafe(_BYTES)
        created = datetime.fromtimestamp(now, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        proof: Proof = "certificate" if certificate else "sha256"
        added = NamedAccess(name, permission, proof, certificate or _hash(token.encode()), created)
        with self._lock:
            known = self.listed()
            if any(name == each.name for each in known):
                raise DMError("bearer-exists", bearer=name)
            self._write([*known, added])
        return token

    def revoke(self, name: str) -> None:
        """Take a line out; raises DMError."""
        with self._lock:
            known = self.listed()
            left = [each for each in known if each.name != name]
            if len(left) == len(known):
                raise DMError("bearer-unknown", bearer=name, there=", ".join(each.name for each in known) or "nobody")
            self._write(left)

    def bearer(self, headers: Iterable[tuple[bytes, bytes]], certificate: str | None) -> Requester | None:
        """Who a request is from; the token counts before the certificate."""
        brought = _brought(headers)
        if brought is not None:
            return self.bearer_of("sha256", _hash(brought))
        return None if certificate is None else self.bearer_of("certificate", certificate)

    def bearer_of(self, proof: str, value: str) -> Requester | None:
        """Whose this hash of a token is, or this common name of a certificate."""
        shown = value.encode()
        for each in self._as_of_now():
            if each.proof == proof and hmac.compare_digest(shown, each.value.encode()):
                return Requester(each.name, each.permission)
        return None

    def _as_of_now(self) -> Sequence[NamedAccess]:
        with self._lock:
            try:
                found = os.stat(self._path)
                seen = (found.st_ino, found.st_mtime_ns, found.st_size)
            except OSError:
                seen = None
            if seen != self._seen:
                self._seen = seen
                try:
                    self._known = self.listed()
                except DMError as error:
                    self._known = ()
                    structlog.get_logger().error("tokens are not accepted", error=error)
            return self._known

    def _write(self, lines: Iterable[NamedAccess]) -> None:
        try:
            write_atomically(self._path, "".join(each.line() for each in lines).encode(), durable=True)
        except OSError as error:
            raise DMError(
                "tokens-unusable", path=self._path, problem="it can't be written", cause=str(error)
            ) from error


def _hash(token: bytes) -> str:
    return hashlib.sha256(token).hexdigest()


@dataclass(frozen=True, slots=True)
class Tokens:
    """All that opens the ports of one daemon."""

    own: AccessToken
    metrics: AccessToken
    named: NamedTokens
    members: str = field(default="", repr=False)  # what members of the cluster show each other; none without a cluster

    @classmethod
    def kept(cls, home: Home, members: str = "") -> Self:
        """Those in the files, which are made where they are missing; raises DMError."""
        named = NamedTokens(home.tokens)
        named.listed()
        return cls(AccessToken.kept(home.token), AccessToken.kept(home.metrics_token), named, members)

    def requester(self, scope: Scope) -> Requester | None:
        """Who asks; none where nothing shows it."""
        headers = scope["headers"]
        if self.own.is_in(headers):
            return OWN
        brought = _brought(headers)
        if self.members and brought is not None and hmac.compare_digest(brought, self.members.encode()):
            return MEMBER
        if _reads_metrics(scope) and self.metrics.is_in(headers):
            return Requester("metrics-token", Permission.READS)
        state: Mapping[str, object] = scope.get("state") or {}
        return self.named.bearer(headers, cast("str | None", state.get(CERTIFICATE)))

    def bearer_of(self, proof: str) -> Requester | None:
        """Who shows this, as of now: `sha256:` and the hash of a token, or `certificate:` and a common name."""
        kind, _, value = proof.partition(":")
        if kind == "sha256" and hmac.compare_digest(value, _hash(self.own.text.encode())):
            return OWN
        return self.named.bearer_of(kind, value)

    def least(self, scope: Scope) -> AccessToken:
        """The token that would do."""
        return self.metrics if _reads_metrics(scope) else self.own


def _reads_metrics(scope: Scope) -> bool:
    return scope.get("path") == METRICS_PATH and scope.get("method") == "GET"


class TokenDemanded:
    """An application after a port: it sees only requests of somebody who is known."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        requester = self._tokens.requester(scope) if scope["type"] == "http" else None
        if requester is not None:
            bears(scope, requester)
            await self._app(scope, receive, send)
            return
        error = DMError("token-missing", path=self._tokens.least(scope).path)
        await refusal(scope.get("path", ""), error, 401, {"WWW-Authenticate": "Bearer"})(scope, receive, send)


class LocalAccess:
    """An application after the Unix socket, which its user alone can open."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on as the user's own."""
        bears(scope, LOCAL)
        await self._app(scope, receive, send)
