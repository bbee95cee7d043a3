"""Reads tokens in order, and keeps parts of a statement for other parsers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.token import Token, tokenize
from dm.text import is_decimal


@dataclass(frozen=True, slots=True, eq=False)
class Clause:
    """A part of a statement: tokens, and the text that their offsets point into."""

    text: str
    tokens: tuple[Token, ...] = ()

    @property
    def source(self) -> str:
        """The text from the first to the last token, as written."""
        return self.text[self.tokens[0].start : self.tokens[-1].end] if self.tokens else ""

    @property
    def words(self) -> list[str]:
        """The tokens in upper case; empty where one is no word."""
        return [token.upper if token.kind == "word" else "" for token in self.tokens]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Clause):
            return NotImplemented
        return [token.meaning for token in self.tokens] == [token.meaning for token in other.tokens]

    def __hash__(self) -> int:
        return hash(tuple(token.meaning for token in self.tokens))


@dataclass(frozen=True, slots=True)
class NameRef:
    """Where a statement names a table or a schema; an empty span if the name was left out."""

    name: TableName
    start: int
    end: int
    foreign: bool = False  # the parent table of a foreign key: mentioned, not changed


class Cursor:
    """A position in the tokens of a clause."""

    def __init__(
        self,
        clause: Clause,
        context: SourceContext,
        error: str = "ddl-not-understood",
        qualifiers: list[tuple[int, int]] | None = None,
    ) -> None:
        self.clause = clause
        self.context = context
        self.qualifiers = [] if qualifiers is None else qualifiers  # where they begin and end in the text
        self.at = 0
        self._tokens = clause.tokens
        self._error = error

    @classmethod
    def over(cls, text: str, context: SourceContext, error: str = "ddl-not-understood") -> Cursor:
        """A cursor at the start of a statement."""
        return cls(Clause(text, tokenize(text, context)), context, error)

    def fail(self, why: str) -> NoReturn:
        """Reject this statement, naming the place."""
        token = self.peek()
        place = "its end" if token is None else repr(self.clause.text[token.start : token.end])
        raise DMError(self._error, statement=self.clause.text, why=f"{why} at {place}")

    @property
    def done(self) -> bool:
        """Whether no token is left."""
        return self.at >= len(self._tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """The next token, or a later one; None after the last."""
        index = self.at + ahead
        return self._tokens[index] if 0 <= index < len(self._tokens) else None

    def word(self, ahead: int = 0) -> str:
        """The next token as an upper-case keyword or symbol; empty for quoted text and at the end."""
        index = self.at + ahead
        return self._tokens[index].upper if 0 <= index < len(self._tokens) else ""

    def sees(self, *words: str) -> bool:
        """Whether these words come next."""
        at, tokens = self.at, self._tokens
        if at >= len(tokens) or tokens[at].upper != words[0]:  # mostly it is one word, and another one
            return False
        return len(words) == 1 or all(self.word(ahead) == word for ahead, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Skip these words if they come next."""
        if not self.sees(*words):
            return False
        self.at += len(words)
        return True

    def accept_any(self, *words: str) -> str:
        """Skip the next word if it is one of these, and return it; else return an empty string."""
        found = self.word()
        if found not in words:
            return ""
        self.at += 1
        return found

    def expect(self, *words: str) -> None:
        """Skip these words, which must come next."""
        if not self.accept(*words):
            self.fail(f"expected {' '.join(words)}")

    def take(self) -> Token:
        """The next token, whatever it is."""
        token = self.peek()
        if token is None:
            self.fail("more was expected")
        self.at += 1
        return token

    def name(self) -> str:
        """A name, quoted or not."""
        token = self.peek()
        if token is None or token.kind not in ("word", "name"):
            self.fail("expected a name")
        self.at += 1
        return token.text

    def column(self) -> str:
        """A column's name. MariaDB takes the table's name before it, which `qualifiers` then has."""
        first = self.at
        self.accept(".")
        name = self.name()
        while self.accept("."):
            name = self.name()
        if self.at - first > 1:
            self.qualifiers.append((self._tokens[first].start, self._tokens[self.at - 1].start))
        return name

    def string(self) -> str:
        """A string; adjacent strings are one."""
        token = self.take()
        if token.kind != "string":
            self.at -= 1
            self.fail("expected a string")
        text = token.text
        while (following := self.peek()) is not None and following.kind == "string":
            text += following.text
            self.at += 1
        return text

    def number(self) -> int:
        """A whole number."""
        token = self.peek()
        if token is None or token.kind != "number" or not is_decimal(token.text):
            self.fail("expected a number")
        self.at += 1
        return int(token.text)

    def table(self, *, foreign: bool = False) -> NameRef:
        """A table name; a missing schema is filled in from the session."""
        first = self.peek()
        if self.accept("."):  # `.t` is a table of the default schema (an ODBC habit both grammars allow)
            schema, table = self.context.schema, self.name()
        else:
            schema, table = self.context.schema, self.name()
            if self.accept("."):
                schema, table = table, self.name()
        last = self.peek(-1)
        assert first is not None
        assert last is not None
        if self.context.lower_case_names:
            schema, table = schema.lower(), table.lower()
        return NameRef(TableName(schema, table), first.start, last.end, foreign)

    def schema(self) -> NameRef:
        """A schema name; if missing, the session's, with an empty span."""
        token = self.peek()
        if token is None or token.kind not in ("word", "name"):
            self.fail("expected a schema name")
        self.at += 1
        name = token.text.lower() if self.context.lower_case_names else token.text
        return NameRef(TableName(name, ""), token.start, token.end)

    def skip_group(self) -> Clause:
        """Skip a parenthesised group that comes next; returns its content."""
        self.expect("(")
        start, depth = self.at, 1
        while depth:
            word = self.take().upper
            depth += (word == "(") - (word == ")")
        return self.part(start, self.at - 1)

    def part(self, start: int, end: int) -> Clause:
        """The tokens with these indexes as a clause."""
        return Clause(self.clause.text, self._tokens[start:end])

    @property
    def ahead(self) -> Clause:
        """The rest, without moving the cursor."""
        return self.part(self.at, len(self._tokens))

    def rest(self) -> Clause:
        """The rest; moves the cursor to the end."""
        clause = self.part(self.at, len(self._tokens))
        self.at = len(self._tokens)
        return clause

    def to_comma(self) -> Clause:
        """What is before the next comma outside parentheses, without moving the cursor."""
        depth, end = 0, self.at
        while end < len(self._tokens):
            word = self._tokens[end].upper
            if word == "," and depth == 0:
                break
            depth += (word == "(") - (word == ")")
            end += 1
        return self.part(self.at, end)

    def within(self, clause: Clause) -> Cursor:
        """A cursor over a part of the same statement."""
        return Cursor(clause, self.context, self._error, self.qualifiers)

    def using(self, schema: str) -> Cursor:
        """A cursor over the same tokens, where names without a schema are in this one."""
        return Cursor(self.clause, replace(self.context, schema=schema), self._error, self.qualifiers)


def outside_parentheses(clause: Clause) -> list[Token]:
    """The tokens outside parentheses: inside them is an expression."""
    found, depth = [], 0
    for token in clause.tokens:
        depth -= token.upper == ")"
        if depth == 0:
            found.append(token)
        depth += token.upper == "("
    return found


def split_at_commas(clause: Clause) -> list[Clause]:
    """The parts of a clause between commas outside parentheses."""
    parts: list[Clause] = []
    depth = start = 0
    for index, token in enumerate(clause.tokens):
        word = token.upper
        depth += (word == "(") - (word == ")")
        if word == "," and depth == 0:
            parts.append(Clause(clause.text, clause.tokens[start:index]))
            start = index + 1
    parts.append(Clause(clause.text, clause.tokens[start:]))
    return parts
