"""`DMError`, the only exception that crosses a module boundary of this package.

It carries what DM's error objects carry (code, class, scope, level, message, raw cause, workaround), a position where
one is known, and whether auto-resume may try again. Raise it by the catalogue's name:
`raise DMError("table-without-row", table=..., position=...) from cause`. Details fill the catalogue's templates; they
must never hold a secret.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Self, TypedDict

if TYPE_CHECKING:
    from dm.errors.kind import ErrorKind

_SCOPE_OF_ROLE: Final[Mapping[object, str]] = {
    "source": "upstream", "upstream": "upstream", "target": "downstream", "downstream": "downstream",
}  # fmt: skip
STATEMENT_SHOWN: Final = 500  # characters of one in a message


class ErrorReport(TypedDict):
    """DM's JSON form of an error, as `query-status` prints it."""

    ErrCode: int
    ErrClass: str
    ErrScope: str
    ErrLevel: str
    Message: str
    RawCause: str
    Workaround: str


class DMError(Exception):
    """One thing that went wrong, described by the catalogue and by the details of this case."""

    def __init__(self, name: str, *, position: object = None, cause: str = "", **details: object) -> None:
        from dm.errors.catalogue import CATALOGUE  # not by `dmctl` without errors; others have it from the start

        self.kind: ErrorKind = CATALOGUE[name]
        self.details = details
        self.position = None if position is None else str(position)
        self.place: Mapping[str, str | int | bool] | None = None  # of the event that failed, where one did
        self.tables: frozenset[tuple[str, str]] = frozenset()  # of the source: schema and name, of what failed
        self.server_errno = 0  # the server's or its driver's number, where the error is theirs
        self._cause = cause
        super().__init__(name)

    @property
    def name(self) -> str:
        """The catalogue's name of this kind of error."""
        return self.kind.name

    @property
    def code(self) -> int:
        """DM's number of this kind of error."""
        return self.kind.code

    @property
    def retryable(self) -> bool:
        """Whether auto-resume may try again without a person."""
        return self.kind.retryable

    @property
    def message(self) -> str:
        """The catalogue's sentence with this case's details in it."""
        text = self.kind.message.format(**self._shown)
        return f"{text}, at {self.position}" if self.position else text

    @property
    def scope(self) -> str:
        """DM's word for whose error it is; of one that any server may have, that of the server's role here."""
        if self.kind.scope != "not-set":
            return self.kind.scope
        return _SCOPE_OF_ROLE.get(self.details.get("role"), "not-set")

    @property
    def workaround(self) -> str:
        """What a person can do about it."""
        return self.kind.workaround.format(**self._shown)

    @property
    def _shown(self) -> Mapping[str, object]:
        """The details as people get them: a statement may be megabytes."""
        statement = str(self.details.get("statement", ""))
        if len(statement) <= STATEMENT_SHOWN:
            return self.details
        return {**self.details, "statement": statement[:STATEMENT_SHOWN] + " ..."}

    @property
    def cause(self) -> str:
        """What the server or the system said, in its own words; of one of dm's errors, without its code and way out.

        The way out of the error that is told is the one that holds: two of them would contradict each other.
        """
        inner = self.__cause__
        if self._cause or inner is None:
            return self._cause
        if not isinstance(inner, DMError):
            return f"{type(inner).__name__}: {inner}"
        told = self.message.startswith(inner.message)
        return inner.cause if told else ": ".join(filter(None, (inner.message, inner.cause)))

    def numbered(self, errno: int) -> Self:
        """Itself, known by a server's number."""
        self.server_errno = errno
        return self

    def restated(self, *, position: object = None, cause: str | None = None) -> DMError:
        """The same error, with more said of where it happened."""
        restated = DMError(
            self.name,
            position=self.position if position is None else position,
            cause=self.cause if cause is None else cause,
            **self.details,
        ).numbered(self.server_errno)
        restated.place, restated.tables = self.place, self.tables
        return restated

    def report(self) -> ErrorReport:
        """DM's JSON object of this error."""
        return {
            "ErrCode": self.kind.code,
            "ErrClass": self.kind.error_class,
            "ErrScope": self.scope,
            "ErrLevel": self.kind.level,
            "Message": self.message,
            "RawCause": self.cause,
            "Workaround": self.workaround,
        }

    def __str__(self) -> str:
        kind = self.kind
        text = f"[code={kind.code}:class={kind.error_class}:scope={self.scope}:level={kind.level}]"
        text += f", Message: {self.message}"
        if self.cause:
            text += f", RawCause: {self.cause}"
        return f"{text}, Workaround: {self.workaround}" if self.workaround else text


def said(error: BaseException) -> str:
    """What an error says; where that can't be asked (py4j asks a JVM that may be gone), what it is."""
    try:
        return str(error)
    except Exception as silent:
        return f"{type(error).__name__}, whose words are lost ({type(silent).__name__})"
