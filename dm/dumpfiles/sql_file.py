"""What stands around the statements of an SQL chunk file.

Such a file is for many readers: the `mysql` client, myloader, TiDB Lightning, and our own load. All of them understand
a header of executable comments, as dumpling and mydumper write it, and pass over a comment line at the end. That line
is our footer: what the chunk is, how long the text before it is and its SHA-256. A file without it was not finished,
one that is longer, shorter or different is damaged.

The header fixes what the text depends on. The character set is binary, so that a quoted value is the bytes it holds;
the mode takes zeros and dates as they are and nothing else that would have to be changed. An ENUM's error value is
refused in a strict session; where the first one comes, the file asks for a lenient one, and it says how many there are.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import BinaryIO, Final

from dm.errors import DMError

# What the source holds was accepted by some server under some mode; at the target it must be stored as it is or not at
# all. An ENUM's error value (what a lenient session once made of a wrong text) is refused by a strict session, so rows
# that have some are written by a lenient one, in which nothing else may be complained of.
STRICT_MODE: Final = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,STRICT_ALL_TABLES"
LENIENT_MODE: Final = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES"
_NO_CHECKS: Final = "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n"
# Not binary as in dumpling's: members of an ENUM or SET would become other characters where the column isn't UTF-8.
SCHEMA_HEADER: Final = f"{_NO_CHECKS}/*!40101 SET NAMES utf8mb4*/;\n"


def _mode(mode: str) -> str:
    return f"/*!40101 SET SQL_MODE='{mode}'*/;\n"


HEADER: Final = (
    f"{_NO_CHECKS}/*!40101 SET NAMES binary*/;\n/*!40103 SET TIME_ZONE='+00:00'*/;\n{_mode(STRICT_MODE)}".encode()
)
LENIENT: Final = _mode(LENIENT_MODE).encode()

_MARK: Final = b"\n-- dm.chunk "  # no value has a line break as it is, so this can't stand inside of one
_WINDOW: Final = 1 << 16


@dataclass(frozen=True, slots=True)
class SqlTrailer:
    """The last line of a chunk file."""

    body: int  # bytes before it
    sha256: str  # of these
    error_values: int  # of ENUM columns: each gives one warning
    footer: str  # the chunk's footer, as JSON

    def line(self) -> bytes:
        """The line, behind a body that ends with a line break."""
        return _MARK[1:] + json.dumps(asdict(self)).encode("ascii") + b"\n"


def read_trailer(file: BinaryIO, name: str) -> SqlTrailer:
    """The trailer of a file; raises DMError where the file has none or is not as long as it says."""
    size = file.seek(0, 2)
    window = 0
    at = -1
    tail = b""
    while at < 0 and window < size:
        window = min(size, max(_WINDOW, window * 4))
        file.seek(size - window)
        tail = file.read(window)
        at = tail.rfind(_MARK)
    if at < 0:
        raise DMError("dump-file-damaged", file=name, why="its last line is missing")
    line = tail[at + 1 :]
    try:
        trailer = SqlTrailer(**json.loads(line[len(_MARK) - 1 :]))
    except (ValueError, TypeError) as error:
        raise DMError("dump-file-damaged", file=name, why=f"its last line can't be read: {error}") from error
    if trailer.body + len(line) != size or not line.endswith(b"\n"):
        raise DMError("dump-file-damaged", file=name, why=f"{size} bytes instead of {trailer.body + len(line)}")
    return trailer
