"""The statements of an SQL dump file, one by one, in bounded memory; what each wants, and what the target gets for it.

Problem: a file may have many GiB and its statements up to `max_allowed_packet`; a value may hold anything that looks
like the end of a statement. So the bytes are cut by the server's rules for quotes and comments (Reference Manual,
"String Literals", "Comments"), and what is held is one statement and the block that is being read.

The rules are those of a session with backslash escapes and without ANSI_QUOTES; a file that asks for another mode is
refused by who reads the statements. In the character sets that are accepted no byte of a longer character is a quote or
a backslash.

Speed: one pattern passes over any number of complete tokens; only what it stops at (the end of a statement, a comment,
a quote whose end has not been read yet) is looked at here. A long quote is passed over again when more has been read,
each time twice as much, so the work stays in proportion to the file.

Dump tools write few kinds of statements: settings, `USE`, and INSERT or REPLACE of rows. Only these are executed, so a
file can change no other table. The beginning of an INSERT, up to VALUES, is cut off at a token's offset and replaced:
our table, the columns by name, the verb that the task asks for. The rows stay the bytes of the file.

Rows must be literals: a value that the target would compute is refused. To the server, a value between the parentheses
of an INSERT is an expression. `(2, other.f())` runs a function with the rights of the task's account, `(3, (SELECT
..))` reads tables, `LOAD_FILE` reads files, and what follows the last row may be an ON DUPLICATE KEY UPDATE. A dump is
data: whoever wrote the file must not be able to do more with it than to choose values.

So a statement is sent only if all of it, from VALUES to its end, is rows of literals: strings, numbers, bits and bytes
(`0x..`, `x'..'`), NULL, TRUE, FALSE, each with an introducer (`_binary'..'`) or a type (`DATE'..'`) where the grammar
has one, and the one call that dump tools write around a literal, `CONVERT('..' USING charset)`, which they need for
JSON (Reference Manual, "Literal Values" and "Character Set Introducers"). Comments are refused too: some are code.

The session has backslash escapes and no ANSI_QUOTES, and its character set has no longer character with a quote in it.
An introducer does not change how the server looks for the end of a literal (it goes by the session's character set,
sql/sql_lex.cc, get_text).

Speed: one pattern passes over all rows, the frequent literals first. No part of it can match in two ways, and nothing
is given back, so the work is in proportion to the text.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import BinaryIO, Final

import zstandard

from dm.dumpfiles.storage import DumpStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.session.state import OTHER_QUOTES

_BLOCK: Final = 1 << 20
_PACKED: Final = 1 << 10  # bytes for zstandard at a time: at most 32 MiB come of them
_RUN: Final = re.compile(
    rb"(?:[^'\"`;#/\-]++|'(?:[^'\\]++|\\.)*+'|\"(?:[^\"\\]++|\\.)*+\"|`[^`]*+`|-(?=[^\-])|/(?=[^*]))*+", re.DOTALL
)
_AFTER_DASHES: Final = frozenset(range(0x21)) | {0x7F}  # what makes two dashes a comment

Read = Callable[[int], bytes]


@dataclass(frozen=True, slots=True)
class SqlText:
    """One statement without its semicolon, and where in the unpacked file it begins."""

    text: bytes
    offset: int


def unpacked_name(name: str) -> str:
    """A file's name without what says how it is packed."""
    return name.removesuffix(".gz").removesuffix(".zst")


@contextmanager
def opened(storage: DumpStorage, name: str) -> Iterator[Read]:
    """Read the file's content, unpacked if it is packed; a file that was cut off is an error, not an end."""
    shown = storage.shown(name)
    try:
        packed_file = storage.open(name)
    except OSError as error:
        raise DMError("dump-file-damaged", file=shown, why=str(error)) from error
    with packed_file as file:
        if name.endswith(".gz"):
            with gzip.GzipFile(fileobj=file) as packed:
                yield _checked(packed.read, shown)
        elif name.endswith(".zst"):
            yield _checked(_zstd(file), shown)
        else:
            yield _checked(file.read, shown)


def _checked(read: Read, shown: str) -> Read:
    def more(size: int) -> bytes:
        try:
            return read(size)
        except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
            raise DMError("dump-file-damaged", file=shown, why=str(error)) from error

    return more


def _zstd(file: BinaryIO) -> Read:
    """zstandard's own reader takes the end of a cut file for the end of its content.

    What the decoder is given decides how much it gives: at most 128 KiB for each four bytes (RFC 8878, "RLE_Block"). So
    it gets little at a time, and a file that is made to unpack to gigabytes does so in pieces.
    """
    decoder = zstandard.ZstdDecompressor().decompressobj()
    fresh = True  # nothing of the present frame has been read

    def read(size: int) -> bytes:
        nonlocal decoder, fresh
        while True:
            data = decoder.unused_data if decoder.eof else b""
            if decoder.eof:
                decoder, fresh = zstandard.ZstdDecompressor().decompressobj(), True
            data = data or file.read(min(size, _PACKED))
            if not data:
                if not fresh:
                    raise EOFError("the file ends in the middle of a frame")
                return b""
            fresh = False
            content = decoder.decompress(data)
            if content:
                return content

    return read


class SqlSource:
    """Cuts what `read` gives into statements; `largest` bounds one of them."""

    def __init__(self, read: Read, shown: str, largest: int) -> None:
        self._read = read
        self._shown = shown
        self._largest = largest
        self._buffer = b""
        self._base = 0  # offset of the buffer in the file
        self._begun = 0  # offset in the buffer of the statement that is open
        self._ended = False

    def __iter__(self) -> Iterator[SqlText]:
        """All statements in order."""
        at = 0  # after what has been looked at
        while True:
            match = _RUN.match(self._buffer, at)
            assert match is not None
            at = match.end()
            if at < len(self._buffer) and self._buffer[at] == 0x3B:  # ;
                yield SqlText(self._buffer[self._begun : at], self._base + self._begun)
                self._begun = at = at + 1
                continue
            beyond = self._beyond(at)
            if beyond is not None:
                at = beyond
            elif not self._ended:
                at -= self._begun
                self._more()
            elif at < len(self._buffer):
                raise self._damaged("it ends inside of a quote or a comment")
            else:
                break
        rest = without_comments(self._buffer[self._begun :])
        if rest:
            raise self._damaged("its last statement has no end")

    def _beyond(self, at: int) -> int | None:
        """The offset after a comment or a symbol that begins here; None when more has to be read."""
        buffer = self._buffer
        if at >= len(buffer):
            return None
        first, following = buffer[at], buffer[at + 1 : at + 2]
        end = None
        if first == 0x23:  # #
            end = self._line_end(at)
        elif first == 0x2D:  # -
            if following == b"-" and (len(buffer) > at + 2 or self._ended):
                comment = len(buffer) == at + 2 or buffer[at + 2] in _AFTER_DASHES
                end = self._line_end(at) if comment else at + 2
            elif following != b"-" and (following or self._ended):
                end = at + 1
        elif first == 0x2F:  # /
            if following == b"*":
                close = buffer.find(b"*/", at + 2)
                end = close + 2 if close >= 0 else None
            elif following or self._ended:
                end = at + 1
        return end

    def _line_end(self, at: int) -> int | None:
        end = self._buffer.find(b"\n", at)
        if end >= 0:
            return end + 1
        return len(self._buffer) if self._ended else None

    def _more(self) -> None:
        """Read on after the statement that is open, which the buffer then begins with."""
        kept, self._base, self._begun = self._buffer[self._begun :], self._base + self._begun, 0
        if len(kept) > self._largest:
            raise DMError("load-statement-too-large", file=self._shown, offset=self._base, largest=self._largest)
        wanted = max(_BLOCK, len(kept))
        parts = [kept]
        while wanted > 0 and not self._ended:  # a reader may give less than it is asked for
            data = self._read(wanted)
            parts.append(data)
            self._ended = not data
            wanted -= len(data)
        self._buffer = b"".join(parts)

    def _damaged(self, why: str) -> DMError:
        return DMError(
            "dump-file-damaged", file=self._shown, why=f"{why} (statement at byte {self._base + self._begun})"
        )


_LEADING: Final = re.compile(
    rb"(?:\s++|/\*(?!M?!).*?\*/|#[^\n]*+(?:\n|\Z)|--(?=[\x00-\x20\x7f]|\Z)[^\n]*+(?:\n|\Z))*+", re.DOTALL
)


def without_comments(text: bytes) -> bytes:
    """A statement without the white space and the comments before it; executable comments are no comments."""
    match = _LEADING.match(text)
    assert match is not None
    return text[match.end() :]


_NAME: Final = rb"`(?:[^`]|``)+`|[A-Za-z0-9_$\x80-\xff]+"
_INSERT: Final = re.compile(
    rb"(?:INSERT(?:\s+IGNORE)?|REPLACE)\s+INTO\s*(?:(?P<schema>" + _NAME + rb")\s*\.\s*)?(?P<table>" + _NAME + rb")\s*"
    rb"(?:\(\s*(?P<columns>(?:(?:" + _NAME + rb")(?:\s*,\s*(?:" + _NAME + rb"))*)?)\s*\)\s*)?VALUES?\s*(?=\()",
    re.IGNORECASE,
)
_NAMES: Final = re.compile(_NAME)
_USE: Final = re.compile(rb"USE\s*(?P<schema>" + _NAME + rb")\s*", re.IGNORECASE)
_EXECUTED: Final = re.compile(rb"/\*M?![0-9]*\s*(?P<code>.*?)\s*\*/\s*", re.DOTALL)
_SET_NAMES: Final = re.compile(rb"SET\s+NAMES\s+'?(?P<charset>[a-z0-9_]+)'?", re.IGNORECASE)
_SET: Final = re.compile(
    rb"SET\s+(?:SESSION\s+|@@SESSION\.|@@)?(?P<name>[a-z_]+)\s*:?=\s*'?(?P<value>[A-Za-z0-9_,+:/ \-]*)'?", re.IGNORECASE
)
# In none of these a byte of a longer character looks like a quote or a backslash.
_CHARSETS: Final = frozenset({"binary", "ascii", "latin1", "utf8", "utf8mb3", "utf8mb4"})


@dataclass(frozen=True, slots=True)
class Setting:
    """What the session is to be for the rows; empty where its own setting is what they need."""

    sql: str = ""
    charset: str = ""  # for SET NAMES
    name: str = ""  # of the variable


@dataclass(frozen=True, slots=True)
class InsertStatement:
    """An INSERT: what it names, and where its first row begins."""

    schema: str  # "" where it names none
    table: str
    columns: tuple[str, ...]  # () where it names none
    rows_at: int
    text: bytes


@dataclass(frozen=True, slots=True)
class NotUnderstood:
    """Why a statement is not executed."""

    why: str


def understand(text: bytes, table: TableName) -> Setting | InsertStatement | NotUnderstood | None:
    """What a statement of a file of the table wants; None when there is only white space and comments."""
    text = without_comments(text)
    if not text:
        return None
    executed = _EXECUTED.fullmatch(text)
    code = text if executed is None else executed["code"]
    insert = _INSERT.match(code)
    if insert is not None:
        named = tuple(_name(name) for name in _NAMES.findall(insert["columns"] or b""))
        schema = "" if insert["schema"] is None else _name(insert["schema"])
        why = not_literal(code, insert.end())
        return NotUnderstood(why) if why else InsertStatement(schema, _name(insert["table"]), named, insert.end(), code)
    use = _USE.fullmatch(code)
    if use is not None:
        found = _name(use["schema"])
        return Setting() if found == table.schema else NotUnderstood(f"it changes to schema {found}")
    setting = _setting(code)
    if setting is not None:
        return setting
    words = code[:40].decode(errors="replace").split()
    return NotUnderstood(f"a statement that begins with {' '.join(words[:3])!r}")


def _setting(code: bytes) -> Setting | NotUnderstood | None:
    names = _SET_NAMES.fullmatch(code)
    if names is not None:
        charset = names["charset"].decode("ascii").lower()
        if charset not in _CHARSETS:
            return NotUnderstood(f"it is written in character set {charset}")
        return Setting(charset=charset)
    match = _SET.fullmatch(code)
    if match is None:
        return None
    name, value = match["name"].decode("ascii").lower(), match["value"].decode("ascii")
    if name == "time_zone":
        return Setting(f"SET SESSION time_zone = '{value}'", name=name)
    if name == "sql_mode":
        modes = OTHER_QUOTES & {mode.strip().upper() for mode in value.split(",")}
        return NotUnderstood(f"it is written for sql_mode {min(modes)}") if modes else Setting()
    # Both are off, or as strict as they can be, in our session anyway.
    return Setting(name=name) if name in ("foreign_key_checks", "unique_checks", "sql_notes") else None


def _name(token: bytes) -> str:
    text = token.decode("utf-8", "surrogateescape")
    return text[1:-1].replace("``", "`") if text.startswith("`") else text


_SHOWN: Final = 40  # bytes of what is refused
_SPACE: Final = rb"[\t-\r ]*+"
_STRING: Final = rb"(?:'(?:[^'\\]++|\\.|'')*+'|\"(?:[^\"\\]++|\\.|\"\")*+\")"
_DIGITS: Final = rb"(?:0[xX][0-9A-Fa-f]++|0[bB][01]++|[xX]'[0-9A-Fa-f]*+'|[bB]'[01]*+')"
_NUMBER: Final = rb"[+\-]?(?:[0-9]++(?:\.[0-9]*+)?+|\.[0-9]++)(?:[eE][+\-]?[0-9]++)?+"
_WORD: Final = rb"(?![0-9A-Za-z_$\x80-\xff(.])"  # ends one
_CONSTANT: Final = rb"(?:%b|[nN]%b|_[0-9A-Za-z]++%b(?:%b|%b)|(?i:DATE|TIMESTAMP|TIME)%b%b)" % (
    _DIGITS, _STRING, _SPACE, _STRING, _DIGITS, _SPACE, _STRING,
)  # fmt: skip
_CONVERTED: Final = rb"(?i:CONVERT)\(%b(?:%b|%b)%b(?i:USING)%b[0-9A-Za-z_]++%b\)" % (
    _SPACE, _STRING, _CONSTANT, _SPACE, _SPACE, _SPACE,
)  # fmt: skip
_VALUE: Final = rb"(?:%b|-?[0-9]++(?=[,)])|(?i:NULL)(?=[,)])|%b(?:%b|%b|%b|%b|(?i:NULL|TRUE|FALSE)%b)%b)" % (
    _STRING, _SPACE, _STRING, _CONSTANT, _NUMBER + _WORD, _CONVERTED, _WORD, _SPACE,
)  # fmt: skip
_ROW: Final = rb"\((?:%b(?:,%b)*+)?+%b\)" % (_VALUE, _VALUE, _SPACE)
_ROWS: Final = re.compile(rb"%b%b(?:,%b%b%b)*+" % (_ROW, _SPACE, _SPACE, _ROW, _SPACE), re.DOTALL)
_BEGUN: Final = re.compile(
    rb"(?:,?+%b\((?:%b(?:,%b)*+,?+)?+%b)?+" % (_SPACE, _VALUE, _VALUE, _SPACE), re.DOTALL
)  # the row that is none, up to where it ceases to be one


def not_literal(text: bytes, at: int) -> str | None:
    """What keeps the rows that begin there, up to the text's end, from being literals; None when nothing does."""
    rows = _ROWS.match(text, at)
    end = at if rows is None else rows.end()
    if rows is not None and end == len(text):
        return None
    begun = _BEGUN.match(text, end)
    assert begun is not None
    found = text[begun.end() : begun.end() + _SHOWN].decode(errors="backslashreplace")
    return f"its rows are to be literals, here is {found!r}" if found else "its last row has no end"
