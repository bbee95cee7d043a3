"""What other readers of binlogs make of the values: `mysqlbinlog --verbose`, and mysql-replication where it is right.

mysqlbinlog prints each value in a form of its type's own; here our value is brought into that form, so what is compared
is their text. Two things it prints otherwise than they are: FLOAT with six digits, and YEAR 0 as 1900. And
mysql-replication is asked about MySQL only and about the types it decodes rightly (an invalid date ends its stream).
"""

from __future__ import annotations

import re
import struct
import subprocess
from collections import defaultdict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymysqlreplication import BinLogStreamReader
from pymysqlreplication.row_event import WriteRowsEvent

from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.compression import decompress_column
from dm.mysql.binlog.value import Value
from dm.mysql.schema.table import Column
from dm.mysql.types import column_type
from dm.mysql.types.spatial import GEOMETRIES
from tests.live.binlog.recorded import Recorded
from tests.live.binlog.types import CASES

_TABLE = re.compile(rb"^### INSERT INTO `[^`]+`\.`([^`]+)`$")
_SECOND = "###   @2="
_ESCAPE = re.compile(rb"\\(x[0-9a-f]{2}|.)", re.DOTALL)
_ESCAPES = {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"b": b"\b", b"0": b"\0"}
_INTEGERS = ("tinyint", "smallint", "mediumint", "int", "bigint")
_FIXED_BINARY = ("uuid", "inet6", "inet4", "binary")


def mysqlbinlog_values(server: ThrowawayServer, file: Path) -> dict[str, list[bytes]]:
    """The texts of the second column of every inserted row, by table, as the family's own program prints them."""
    program = "mysqlbinlog" if server.flavor == "mysql" else "mariadb-binlog"
    command = [*server.installation.command(program), "--no-defaults", "--base64-output=decode-rows", "--verbose"]
    printed = subprocess.run([*command, str(file)], capture_output=True, check=True).stdout
    found: dict[str, list[bytes]] = defaultdict(list)
    table = ""
    for line in printed.split(b"\n"):
        match = _TABLE.match(line)
        if match:
            table = match[1].decode()
        elif line.startswith(b"### ") and not line.startswith((b"### SET", b"###   @")):
            table = ""
        elif table and line.startswith(_SECOND.encode()):
            found[table].append(line[len(_SECOND) :])
    return found


def mysqlbinlog_disagrees(column: Column, ours: Value, theirs: bytes, *, compressed: bool) -> bool:
    """Whether the program's text means another value than ours; it prints a COMPRESSED column as it is stored."""
    base = column.base
    if theirs.startswith(b"!! Don't know how to handle column type"):
        return column_type(base) not in GEOMETRIES
    if ours is None:
        return theirs != b"NULL"
    if base == "vector":
        assert isinstance(ours, bytes)
        numbers = struct.unpack(f"<{len(ours) // 4}f", ours)
        return f"[{','.join(f'{number:.5e}' for number in numbers)}]".encode() != theirs
    if isinstance(ours, bytes):
        text = decompress_column(_plain(theirs)) if compressed else _plain(theirs)
        return (ours.rstrip(b"\0") != text.rstrip(b"\0")) if base in _FIXED_BINARY else ours != text
    if base in _INTEGERS:
        # A negative number is followed by its unsigned reading: the program does not know which one is meant.
        return str(ours).encode() not in theirs.replace(b"(", b"").replace(b")", b"").split()
    if base == "float":
        return f"{ours:g}".encode() != theirs.strip()
    if base == "double":
        return ours != float(theirs)
    if base in ("decimal", "enum"):
        return str(ours).encode() != theirs
    if base == "year":
        return (f"{ours:04d}" if ours else "1900").encode() != theirs  # it adds 1900 to the 0 as well
    if base == "bit":
        return ours != int(theirs[2:-1], 2)
    if base == "set":  # byte for byte, the lowest one first
        assert isinstance(ours, int)
        bits = theirs[2:-1].decode()
        return "".join(f"{byte:08b}" for byte in ours.to_bytes(len(bits) // 8, "little")) != bits
    if base in ("date", "time", "datetime", "timestamp"):
        assert isinstance(ours, str)
        return _moment(base, ours) != theirs.decode().strip("'")
    assert isinstance(ours, str)
    document = _plain(theirs).decode()
    return document not in (ours, ours.strip('"'))  # it leaves out the quotes of bytes that are the whole document


def _plain(quoted: bytes) -> bytes:
    return _ESCAPE.sub(lambda match: _unescaped(match[1]), quoted[1:-1])


def _unescaped(code: bytes) -> bytes:
    return bytes.fromhex(code[1:].decode()) if len(code) == 3 else _ESCAPES.get(code, code)


def _moment(base: str, text: str) -> str:
    """Dates have colons; TIMESTAMPs are seconds since 1970."""
    if base == "date":
        return text.replace("-", ":")
    if base != "timestamp":
        return text
    whole, point, fraction = text.partition(".")
    if whole.startswith("0000"):
        return f"0{point}{fraction}"
    moment = datetime.strptime(whole, "%Y-%m-%d %H:%M:%S").replace(tzinfo=UTC)
    return f"{int(moment.timestamp())}{point}{fraction}"


def _duration(text: str) -> timedelta:
    hours, minutes, seconds = text.lstrip("-").split(":")
    duration = timedelta(hours=int(hours), minutes=int(minutes), microseconds=round(float(seconds) * 1_000_000))
    return -duration if text.startswith("-") else duration


# How our value reads there, for the types (without their length) where it is right.
_RIGHT: dict[str, Callable[[Any], object]] = {
    **dict.fromkeys((*_INTEGERS, "double"), lambda value: value),
    "decimal": str,
    "timestamp": datetime.fromisoformat,
    "time": _duration,
}


def replication_disagrees(source: Recorded) -> list[str]:
    """The values that mysql-replication reads differently, of those that it reads rightly."""
    server = source.server
    stream = BinLogStreamReader(
        connection_settings={
            "host": server.host,
            "port": server.port,
            "user": server.user,
            "password": server.password,
        },
        server_id=4_000_001,
        log_file=source.recording.file.name,
        log_pos=4,
        resume_stream=True,
        only_events=[WriteRowsEvent],
        only_schemas=[source.schema],
        only_tables=[f"v{number}" for number in source.cases if source.changes(f"v{number}")[0].base in _RIGHT],
        end_log_pos=source.recording.file.stat().st_size,
        enable_logging=False,
    )
    found: dict[str, list[Any]] = defaultdict(list)
    try:
        for event in stream:
            found[event.table] += [list(row["values"].values())[1] for row in event.rows]
    finally:
        stream.close()
    wrong: list[str] = []
    compared = 0
    for number in source.cases:
        table = f"v{number}"
        column, _ = source.changes(table)
        if column.base not in _RIGHT or column.unsigned:
            continue
        for ours, theirs in zip(source.inserted(table), found[table], strict=False):
            if _asked(column, ours):
                compared += 1
                expected = _RIGHT[column.base](ours)
                there = f"{theirs:f}" if column.base == "decimal" else theirs
                if expected != there:
                    wrong.append(f"{CASES[number][1]}: {ours!r} is {theirs!r} there")
    assert compared > 100
    return wrong


def _asked(column: Column, value: Value) -> bool:
    """Whether it is right for this value: it does not know negative fractions of TIME, nor zero as no moment."""
    if column.base == "timestamp":
        return value is not None and not str(value).startswith("0000")
    return value is not None and not (
        column.base == "time" and isinstance(value, str) and value.startswith("-") and "." in value
    )
