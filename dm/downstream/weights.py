"""The target's answers to the questions of `dm.changes.collation`, from a session of its own, and remembered.

TiDB's weights ignore trailing spaces, and a text of spaces has none, so nothing could be proved about its collations.
There a letter is appended to each text, and its weight is removed again.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from dm.changes.collation import Profile, Weights, examine
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.ident import Ident
from dm.rules.texts import Question
from dm.session.answers import reads_answers

_REMEMBERED: Final = 100_000
_UNKNOWN_COLLATION: Final = {1273, 1253, 1115}  # the collation, or its character set
_END: Final = b"x"
_NAME: Final = re.compile(r"[a-z0-9_]+", re.IGNORECASE)


class ServerWeights(Weights):
    """WEIGHT_STRING and CONVERT on the target; a broken session is replaced once per question."""

    def __init__(self, connect: Callable[[], TargetConnection], *, remembered: int = _REMEMBERED) -> None:
        self._connect = connect
        self._connection: TargetConnection | None = None
        self._without_end: bool | None = None  # until a session was asked
        self._answers: OrderedDict[tuple[str, bytes], bytes | None] = OrderedDict()
        self._profiles: dict[str, Profile | None] = {}
        self._remembered = remembered
        self._lock = threading.RLock()
        self.questions = 0

    def weigh(self, text: bytes, charset: str, collation: str, prefix: int | None) -> bytes | None:
        """The weight of the text, converted to the collation's character set and cut to `prefix` characters."""
        into = _charset_of(collation)
        cut = _cut(charset, into, prefix)
        if not self._weighs_without_end():
            return self._ask(f"SELECT WEIGHT_STRING({cut} COLLATE {collation})", text)
        letter = _cut("ascii", into, None)
        end = self._ask(f"SELECT WEIGHT_STRING({letter} COLLATE {collation})", _END)
        letter = letter.replace("?", f"0x{_END.hex()}")
        both = self._ask(f"SELECT WEIGHT_STRING(CONCAT({cut}, {letter}) COLLATE {collation})", text)
        return None if both is None or not end or not both.endswith(end) else both[: -len(end)]

    def convert(self, text: bytes, charset: str, into: str, prefix: int | None) -> bytes | None:
        """The text converted to another character set and cut to `prefix` characters."""
        return self._ask(f"SELECT CAST({_cut(charset, into, prefix)} AS BINARY)", text)

    def profile(self, collation: str) -> Profile | None:
        """What an examination proved about the collation; made once."""
        with self._lock:
            if collation not in self._profiles:
                self._profiles[collation] = examine(self, collation)
            return self._profiles[collation]

    def holds(
        self, question: Question, text: bytes, charset: str, other: bytes, other_charset: str, collation: str
    ) -> bool | None:
        """Whether `text question other` is true under the collation; None where the server does not know it."""
        into = _charset_of(collation)
        literal = "0x" + other.hex() if other else "''"
        right = _cut(other_charset, into, None).replace("?", literal)
        left = f"{_cut(charset, into, None)} COLLATE {collation}"
        try:
            answer = self._ask(f"SELECT CAST(({left} {question} {right} COLLATE {collation}) AS BINARY)", text)
        except DMError as error:
            if error.server_errno in _UNKNOWN_COLLATION:
                return None
            raise
        return answer == b"1"

    def close(self) -> None:
        """End the session."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _weighs_without_end(self) -> bool:
        with self._lock:
            if self._without_end is None:
                self._connection = self._connection or self._connect()
                self._without_end = self._connection.dialect.weighs_without_end
            return self._without_end

    def _ask(self, question: str, text: bytes) -> bytes | None:
        with self._lock:
            found = self._answers.get((question, text), _NOTHING)
            if found is not _NOTHING:
                self._answers.move_to_end((question, text))
                return found
            answer = self._answer(question.replace("?", "0x" + text.hex() if text else "''").encode())
            if len(text) <= 1024:
                self._answers[question, text] = answer
                if len(self._answers) > self._remembered:
                    self._answers.popitem(last=False)
            return answer

    @reads_answers
    def _answer(self, sql: bytes) -> bytes | None:
        self.questions += 1
        for left in (1, 0):
            if self._connection is None:
                self._connection = self._connect()
            try:
                value = self._connection.query(sql)[0][0]
            except DMError as error:
                self._connection.close()
                self._connection = None
                if error.name != "connection-lost" or not left:
                    raise
            else:
                return None if value is None else bytes(value)
        raise AssertionError("the loop returns or raises")


_NOTHING: Final = b"\0nothing\0"


def _charset_of(collation: str) -> str:
    return collation.partition("_")[0]


def _cut(charset: str, into: str, prefix: int | None) -> str:
    """An expression over the text `?`; character sets are names of the server, checked all the same."""
    if not _NAME.fullmatch(charset) or not _NAME.fullmatch(into):
        raise DMError("internal-error", what=f"character set {Ident(charset).sql} or {Ident(into).sql}")
    converted = f"CONVERT(_{charset} ? USING {into})"
    return converted if prefix is None else f"LEFT({converted}, {int(prefix)})"
