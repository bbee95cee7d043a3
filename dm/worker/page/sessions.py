"""Sessions of the page: who has logged in with which browser.

A session begins with a token, or with the certificate that the connection has shown, and is known by a cookie. With
each request the session asks the tokens again who its bearer is. So it ends with the token's revocation, and has the
permission that the token has now. It also ends after twelve hours, and after two without a request.

The cookie is HttpOnly and SameSite=Strict, and Secure where the port has TLS. Browsers send a cookie to all ports of a
host, hence its name has the port: two daemons of one host have each their own.

A form brings a second secret of its session, which a page of another origin can't read.

What came of a verb is shown once, at the address to which the form's answer leads: another tab of the session, which
may load its page in between, does not take it.

Sessions are in memory, at most 256 of them, and 16 of one bearer; the one that rests the longest goes first.
Only a hash of each cookie is kept. After a restart of the daemon one logs in again.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from dm.clock import Clock
from dm.worker.access import Requester, Tokens

MOST: Final = 256
MOST_OF_ONE: Final = 16
LONGEST_SECONDS: Final = 12 * 3600.0
IDLE_SECONDS: Final = 2 * 3600.0
_BYTES: Final = 32
_MOST_NOTICES: Final = 16  # of one session, that nobody has looked at


@dataclass(frozen=True, slots=True)
class Notice:
    """What came of a verb; shown once."""

    text: str
    done: bool
    details: tuple[str, ...] = ()


@dataclass(slots=True)
class PageSession:
    """One login."""

    proof: str  # what shows the bearer (Tokens.bearer_of)
    began: float
    used: float
    form_token: str = field(default_factory=lambda: secrets.token_urlsafe(_BYTES), repr=False)
    notices: dict[str, Notice] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def keep(self, notice: Notice) -> str:
        """Keep it for one page; gives what the page's address names it by."""
        key = secrets.token_urlsafe(_BYTES)
        with self._lock:
            self.notices[key] = notice
            for oldest in [*self.notices][:-_MOST_NOTICES]:
                del self.notices[oldest]
        return key

    def taken_notice(self, key: str) -> Notice | None:
        """What is to be shown where the address has this, which is over then."""
        with self._lock:
            return self.notices.pop(key, None)


class Sessions:
    """Begins, finds and ends sessions; from any thread."""

    def __init__(self, tokens: Tokens, clock: Clock) -> None:
        self._tokens = tokens
        self._clock = clock
        self._lock = threading.Lock()
        self._all: dict[str, PageSession] = {}

    def __len__(self) -> int:
        return len(self._all)

    def begin(self, proof: str) -> str:
        """A new session; gives the value of its cookie."""
        value, now = secrets.token_urlsafe(_BYTES), self._clock.monotonic()
        with self._lock:
            own = [key for key, each in self._all.items() if each.proof == proof]
            self._make_room(own, MOST_OF_ONE)
            self._make_room([*self._all], MOST)
            self._all[_hash(value)] = PageSession(proof, now, now)
        return value

    def of(self, request: Request) -> tuple[PageSession, Requester] | None:
        """The session of a request, and whose it is now; none where nobody is logged in."""
        value = request.cookies.get(cookie_name(request))
        if not value:
            return None
        now = self._clock.monotonic()
        with self._lock:
            key = _hash(value)
            session = self._all.get(key)
            if session is None:
                return None
            requester = self._tokens.bearer_of(session.proof)
            if requester is None or now - session.began > LONGEST_SECONDS or now - session.used > IDLE_SECONDS:
                del self._all[key]
                return None
            session.used = now
            return session, requester

    def end(self, request: Request) -> None:
        """Log out."""
        with self._lock:
            self._all.pop(_hash(request.cookies.get(cookie_name(request), "")), None)

    def _make_room(self, keys: list[str], most: int) -> None:
        keys.sort(key=lambda key: self._all[key].used)
        for key in keys[: max(0, len(keys) - most + 1)]:
            del self._all[key]


def cookie_name(request: Request) -> str:
    """Of this port; `__Host-` has the browser take it only over TLS, and from this host alone."""
    server = request.scope.get("server")
    name = f"dm-session-{server[1] if server else 0}"
    return f"__Host-{name}" if request.url.scheme == "https" else name


def set_cookie(request: Request, response: Response, value: str) -> None:
    """Have the browser keep the cookie until it is closed; an empty value has it forget the cookie."""
    response.set_cookie(
        cookie_name(request),
        value,
        max_age=None if value else 0,
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )


def proof_of_token(token: str) -> str:
    """What `Tokens.bearer_of` knows the bearer of a token by."""
    return f"sha256:{_hash(token)}"


def brings_form_token(session: PageSession, form: Mapping[str, str]) -> bool:
    """Whether a form is one of this session's pages."""
    return hmac.compare_digest(form.get("form_token", "").encode(), session.form_token.encode())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
