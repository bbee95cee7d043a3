"""The secret that a request through a port has to bring.

The daemon's Unix socket is its user's alone, by the permissions of the file. A port is not: every user and every
program of the machine can connect to it. So a request there shows that its sender can read a file of the daemon's home,
or a copy of it.

There are two. With `token` one can do all that `dmctl` does, and that is all that the daemon's user can do: a task file
names files that the daemon reads, and programs that it starts (`spark.java-home`). Prometheus is another user as a rule
and needs none of that, so `metrics-token` opens `/metrics` for reading and nothing else, at either port.

The comparison takes the same time wherever two tokens differ. Neither the token nor what came in its place is in a log
or an answer.
"""

from __future__ import annotations

import hmac
import os
import secrets
import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self, cast

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.unit import JSON
from dm.worker.home import demand_own

METRICS_PATH: Final = "/metrics"
_BYTES: Final = 32
_FEWEST_CHARACTERS: Final = 32  # of a token that a person wrote there


@dataclass(frozen=True, slots=True)
class AccessToken:
    """A token of one daemon and the file that holds it."""

    path: Path
    text: str = field(repr=False)

    @classmethod
    def kept(cls, path: Path) -> Self:
        """The token in the file, which is made where it is missing; raises DMError."""
        try:
            if not os.path.lexists(path):
                write_atomically(path, f"{secrets.token_urlsafe(_BYTES)}\n".encode(), durable=True)
            with path.open(encoding="ascii") as file:
                found = os.fstat(file.fileno())
                demand_own(found, path)
                mode = stat.S_IMODE(found.st_mode)
                text = file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise DMError("token-unusable", path=path, problem="it can't be read", cause=str(error)) from error
        if mode & 0o077:
            raise DMError("token-unusable", path=path, problem=f"its mode is {mode:04o}, others may use it")
        if len(text) < _FEWEST_CHARACTERS:
            raise DMError("token-unusable", path=path, problem=f"it has fewer than {_FEWEST_CHARACTERS} characters")
        return cls(path, text)

    def is_in(self, headers: Iterable[tuple[bytes, bytes]]) -> bool:
        """Whether a request with these headers brings the token."""
        brought = [value for name, value in headers if name.lower() == b"authorization"]
        if len(brought) != 1:
            return False
        scheme, _, credentials = brought[0].partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(credentials.strip(), self.text.encode())


@dataclass(frozen=True, slots=True)
class Tokens:
    """Both tokens of one daemon."""

    full: AccessToken
    metrics: AccessToken

    @classmethod
    def kept(cls, full: Path, metrics: Path) -> Self:
        """Those in the files, which are made where they are missing; raises DMError."""
        return cls(AccessToken.kept(full), AccessToken.kept(metrics))

    def allow(self, scope: Scope) -> bool:
        """Whether a request brings a token that is enough for it."""
        return self.full.is_in(scope["headers"]) or (_reads_metrics(scope) and self.metrics.is_in(scope["headers"]))

    def least(self, scope: Scope) -> AccessToken:
        """The token that would do."""
        return self.metrics if _reads_metrics(scope) else self.full


class TokenDemanded:
    """An application after a port: it sees only requests that bring a token for them."""

    def __init__(self, app: ASGIApp, tokens: Tokens) -> None:
        self._app = app
        self._tokens = tokens

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, or answer it with 401."""
        if scope["type"] == "http" and self._tokens.allow(scope):
            await self._app(scope, receive, send)
            return
        error = DMError("token-missing", path=self._tokens.least(scope).path)
        answer = {"result": False, "msg": str(error), "error": cast("JSON", error.report())}
        refusal = JSONResponse(answer, 401, headers={"WWW-Authenticate": "Bearer"})
        await refusal(scope, receive, send)


def _reads_metrics(scope: Scope) -> bool:
    return scope.get("path") == METRICS_PATH and scope.get("method") == "GET"
