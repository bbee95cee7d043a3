"""The text of an object: its parts, and another text made of it.

The text stays bytes. It may hold literals that are no text in its client's character set, and MySQL writes names in
UTF-8 before a body in that character set. So nothing is decoded as a whole: the lexer reads a picture of the bytes, in
which each byte is one character, and each part of a longer character is a letter. Its offsets are those of the bytes.
All that is not replaced is the server's own bytes.

A server has taken version comments (`/*!80000 .. */`) out when it stored the text: their content is code or gone.

The head (up to the body) has the words of SHOW CREATE, but for a MariaDB's trigger, whose head is what a person typed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

from dm.errors import DMError
from dm.mysql.binlog.charset import LATIN1, codec_of, decoder_of
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Lexeme, scan
from dm.session.state import OTHER_QUOTES
from dm.tools.objects.stored import StoredObject

# Characters whose last byte may be an ASCII one (MySQL strings/ctype-big5.cc, -sjis, -cp932, -gbk, -gb18030).
_LONGER: Final = {
    "big5": re.compile(rb"[\xa1-\xf9].", re.DOTALL),
    "sjis": re.compile(rb"[\x81-\x9f\xe0-\xfc].", re.DOTALL),
    "cp932": re.compile(rb"[\x81-\x9f\xe0-\xfc].", re.DOTALL),
    "gbk": re.compile(rb"[\x81-\xfe].", re.DOTALL),
    "gb18030": re.compile(rb"[\x81-\xfe][0-9][\x81-\xfe][0-9]|[\x81-\xfe].", re.DOTALL),
}
_QUOTED_NAME: Final = rb'(?:`(?:[^`]|``)*`|"(?:[^"]|"")*")'
_NAMES_IN_UTF8: Final = re.compile(
    rb"CREATE DEFINER="
    + _QUOTED_NAME
    + rb"@"
    + _QUOTED_NAME
    + rb" (?:PROCEDURE|FUNCTION|TRIGGER|EVENT) "
    + _QUOTED_NAME
)


class Span(NamedTuple):
    """A part of the text, in bytes."""

    start: int
    end: int


class Edit(NamedTuple):
    """What stands in place of a part."""

    span: Span
    text: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The parts of a statement before its body."""

    definer: Span | None  # the whole clause
    name: Span  # with the schema before it, if there is one
    table: Span | None = None  # of a trigger, with its schema
    other: int | None = None  # the lexeme that names the trigger beside which this one stands
    # Of an event; with ON COMPLETION NOT PRESERVE before it, which is the default: MySQL prints that of each event, and
    # does not understand it under HIGH_NOT_PRECEDENCE.
    status: Span | None = None
    comment: Span | None = None  # of an event, with the word before it
    body: int = 0  # the first lexeme after all of that


def encoded(text: str, charset: str) -> bytes:
    """A name or literal in a client's character set; raises DMError where it can't be written so."""
    if text.isascii():
        return text.encode()
    codec, decode = "latin-1" if charset == "latin1" else codec_of(charset), decoder_of(charset)
    if codec is not None and decode is not None:
        own = {ord(character): code for code, character in LATIN1.items()} if charset == "latin1" else {}
        try:
            raw = text.translate(own).encode(codec)
        except UnicodeEncodeError:
            raw = b""
        if raw and decode(raw) == text:
            return raw
    raise DMError("objects-name-unwritable", called=text, charset=charset)


class ObjectStatement:
    """A statement as lexemes; raises DMError `ddl-not-understood` where it does not fall into any."""

    def __init__(self, stored: StoredObject, context: SourceContext) -> None:
        assert stored.statement is not None
        self.raw = stored.statement
        self.charset = stored.settings.client
        self._kind = stored.name.kind
        self.lexemes = _lexemes(self.raw, self.charset, context)

    def span(self, at: int) -> Span:
        """The place of a lexeme."""
        return Span(self.lexemes[at].start, self.lexemes[at].end)

    def slice(self, at: int) -> bytes:
        """A lexeme's bytes."""
        return self.raw[self.lexemes[at].start : self.lexemes[at].end]

    def word(self, at: int) -> str:
        """The keyword that a lexeme could be, or a symbol; empty for all else."""
        if at >= len(self.lexemes) or self.lexemes[at].kind not in ("word", "symbol"):
            return ""
        return self.slice(at).decode("latin-1").upper()

    def names(self, at: int) -> tuple[str, ...]:
        """What a lexeme may be called as an identifier: in UTF-8, or in the client's character set."""
        if at >= len(self.lexemes) or self.lexemes[at].kind not in ("word", "name"):
            return ()
        raw = self.slice(at)
        if self.lexemes[at].kind == "name":
            raw = raw[1:-1].replace(raw[:1] * 2, raw[:1])
        decode = decoder_of(self.charset)
        readings = (raw.decode("utf-8", "surrogateescape"), None if decode is None else decode(raw))
        return tuple(dict.fromkeys(each for each in readings if each is not None))

    @cached_property
    def head(self) -> Head:
        """The parts before the body; raises DMError where the head has another form."""
        return _Walk(self, self._kind).head()

    def spells(self, span: Span, schema: str, name: str) -> bool:
        """Whether a part is this name as the client would write it, with or without this schema."""
        inside = [at for at, each in enumerate(self.lexemes) if span.start <= each.start < span.end]
        written = [self.names(at)[-1] if self.names(at) else self.word(at) for at in inside]
        return written in ([name], [schema, ".", name])

    def edited(self, edits: Iterable[Edit]) -> bytes:
        """The text with parts replaced, which do not overlap."""
        pieces, at = [], 0
        for span, text in sorted(edits):
            pieces += [self.raw[at : span.start], text]
            at = span.end
        return b"".join([*pieces, self.raw[at:]])

    def qualified(self) -> Iterator[tuple[int, int]]:
        """Pairs of lexemes `a` and `b` for each `a.b` in the body that begins a name."""
        for at in range(self.head.body, len(self.lexemes) - 2):
            begins = self.word(at + 1) == "." and self.word(at - 1) not in (".", "@")
            if begins and self.names(at) and self.names(at + 2):
                yield at, at + 2

    def meaning(self, own_schema: str) -> tuple[tuple[str, bytes], ...]:
        """What two texts of the same object have in common: without DEFINER, names of the head, and own schema."""
        head, skipped = self.head, set[int]()
        for at, other in self.qualified():
            if own_schema in self.names(at):
                skipped.update(range(at, other))
        left_out = [span for span in (head.definer, head.name, head.table, head.status, head.comment) if span]
        found = []
        for at, lexeme in enumerate(self.lexemes):
            if at in skipped or any(span.start <= lexeme.start < span.end for span in left_out):
                continue
            raw = self.slice(at)
            if at < head.body and lexeme.kind == "word":
                raw = raw.upper()
            if lexeme.kind == "name":
                raw = raw[1:-1].replace(raw[:1] * 2, raw[:1])
            found.append((lexeme.kind, raw))
        return tuple(found)


def context_of(stored: StoredObject, flavor_context: SourceContext) -> SourceContext:
    """How a server reads a text under the sql_mode of its object."""
    modes = stored.settings.modes
    return SourceContext(
        flavor_context.flavor,
        flavor_context.version,
        stored.name.schema,
        ansi_quotes=bool(modes & (OTHER_QUOTES - {"NO_BACKSLASH_ESCAPES"})),
        no_backslash_escapes="NO_BACKSLASH_ESCAPES" in modes,
    )


def _lexemes(raw: bytes, charset: str, context: SourceContext) -> tuple[Lexeme, ...]:
    longer = _LONGER.get(charset)
    pictured = raw
    if longer is not None:
        head = _NAMES_IN_UTF8.match(raw)
        at = head.end() if head else 0
        pictured = raw[:at] + longer.sub(lambda found: b"\xff" * len(found[0]), raw[at:])
    return scan(pictured.decode("latin-1"), context).lexemes


class _Walk:
    """Reads the head of a statement, lexeme by lexeme."""

    def __init__(self, statement: ObjectStatement, kind: str) -> None:
        self._statement, self._kind, self._at = statement, kind, 0

    def head(self) -> Head:
        self._expect("CREATE")
        definer = None
        first = self._kind.split()[0].upper()
        while (word := self._word()) != first:
            if word == "DEFINER" and self._statement.word(self._at + 1) == "=":
                begin = self._at
                self._at += 5 if self._statement.word(self._at + 3) == "@" else 3
                if self._at >= len(self._statement.lexemes):
                    raise self._strange()
                definer = Span(self._statement.span(begin).start, self._statement.span(self._at).start)
            elif word in ("OR", "REPLACE", "ALGORITHM", "SQL", "SECURITY", "AGGREGATE"):
                self._at += 1
            elif word == "=":
                self._at += 2
            elif word in ("INVOKER", "DEFINER"):
                self._at += 1
            else:
                raise self._strange()
        for part in self._kind.upper().split():
            self._expect(part)
        begin = self._at
        if self._word() == "IF" and self._statement.word(self._at + 1) == "NOT":
            self._at += 3
        self._name()
        name = Span(self._statement.span(begin).start, self._statement.span(self._at - 1).end)
        if self._kind == "trigger":
            return self._trigger(definer, name)
        if self._kind == "event":
            return self._event(definer, name)
        return Head(definer, name, body=self._at)

    def _word(self) -> str:
        return self._statement.word(self._at)

    def _strange(self) -> DMError:
        text = self._statement.raw.decode("utf-8", "replace")
        return DMError("ddl-not-understood", statement=text, why="its head has another form than SHOW CREATE gives it")

    def _expect(self, word: str) -> None:
        if self._word() != word:
            raise self._strange()
        self._at += 1

    def _name(self) -> None:
        if not self._statement.names(self._at):
            raise self._strange()
        self._at += 1
        if self._word() == ".":
            self._at += 2

    def _trigger(self, definer: Span | None, name: Span) -> Head:
        while self._word() != "ON":
            if self._at >= len(self._statement.lexemes):
                raise self._strange()
            self._at += 1
        self._at += 1
        begin = self._at
        self._name()
        table = Span(self._statement.span(begin).start, self._statement.span(self._at - 1).end)
        for word in ("FOR", "EACH", "ROW"):
            self._expect(word)
        other = None
        if self._word() in ("FOLLOWS", "PRECEDES"):
            other = self._at + 1
            self._at += 2
        return Head(definer, name, table, other, body=self._at)

    def _event(self, definer: Span | None, name: Span) -> Head:
        self._expect("ON")
        self._expect("SCHEDULE")
        while self._word() not in ("ON", "ENABLE", "DISABLE"):
            if self._at >= len(self._statement.lexemes):
                raise self._strange()
            self._at += 1
        begin = self._at
        if self._word() == "ON":
            self._at += 1
            self._expect("COMPLETION")
            lasts = self._word() != "NOT"
            self._at += not lasts
            self._expect("PRESERVE")
            begin = self._at if lasts else begin
        while self._word() in ("ENABLE", "DISABLE", "ON", "SLAVE", "REPLICA"):
            self._at += 1
        status = Span(self._statement.span(begin).start, self._statement.span(self._at - 1).end)
        comment = None
        if self._word() == "COMMENT":
            comment = Span(self._statement.span(self._at).start, self._statement.span(self._at + 1).end)
            self._at += 2
        return Head(definer, name, status=status, comment=comment, body=self._at)
