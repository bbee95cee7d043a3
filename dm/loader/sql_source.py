"""The statements of an SQL dump file, one by one, in bounded memory.

Problem: a file may have many GiB and its statements up to `max_allowed_packet`; a value may hold anything that looks
like the end of a statement. So the bytes are cut by the server's rules for quotes and comments (Reference Manual,
"String Literals", "Comments"), and what is held is one statement and the block that is being read.

The rules are those of a session with backslash escapes and without ANSI_QUOTES; a file that asks for another mode is
refused by who reads the statements. In the character sets that are accepted no byte of a longer character is a quote or
a backslash.

Speed: one pattern passes over any number of complete tokens; only what it stops at (the end of a statement, a comment,
a quote whose end has not been read yet) is looked at here. A long quote is passed over again when more has been read,
each time twice as much, so the work stays in proportion to the file.
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
