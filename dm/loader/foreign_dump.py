"""A dump that dumpling or mydumper has written, as the load needs it.

Both write `{schema}-schema-create.sql`, `{schema}.{table}-schema.sql`, data as `{schema}.{table}[.chunk][.part].sql`,
all of them perhaps packed, and `metadata` when all is written. They differ in how they put names into file names
(dumpling escapes, mydumper leaves them as they are or invents others), so names are taken from the statements inside,
and file names only tell which files belong together. What can't be told apart is refused.

Views, triggers, routines and sequences are no tables: their files are left out, and the status says so.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dm.dumpfiles.dump_files import METADATA_FILE, DumpedTable, DumpPlan
from dm.dumpfiles.storage import DumpStorage, read_bytes
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.loader.sql_source import Setting, SqlSource, opened, understand, unpacked_name, without_comments
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize
from dm.position import Position
from dm.text import is_decimal

_LARGEST_SCHEMA: Final = 1 << 24
_LARGEST_METADATA: Final = 1 << 26  # mydumper's has some lines for each table
_NUMBERS: Final = re.compile(r"(?P<stem>.*)\.[0-9]+", re.DOTALL)
_LEFT_OUT: Final = ("-schema-view.sql", "-schema-post.sql", "-schema-triggers.sql", "-schema-sequence.sql")
_CREATE: Final = "-schema-create.sql"
_SCHEMA: Final = "-schema.sql"
_UNREADABLE: Final = (".csv", ".dat", ".parquet")


@dataclass(frozen=True, slots=True)
class ForeignDump:
    """What was found."""

    plan: DumpPlan
    files: Mapping[TableName, tuple[str, ...]]  # data of each table, in the order of their names
    left_out: tuple[str, ...]


@dataclass(frozen=True)
class _Place:
    storage: DumpStorage
    context: SourceContext

    def refused(self, why: str) -> DMError:
        return DMError("dump-not-understood", directory=self.storage, why=why)

    def names(self) -> list[str]:
        return sorted(self.storage.names())

    def statement(self, name: str, schema: str) -> str:
        """The one statement of a schema file that is no setting."""
        shown = self.storage.shown(name)
        found: list[str] = []
        with opened(self.storage, name) as read:
            for text in SqlSource(read, shown, _LARGEST_SCHEMA):
                wanted = understand(text.text, TableName(schema, ""))
                if wanted is None or isinstance(wanted, Setting):
                    continue
                try:
                    found.append(without_comments(text.text).decode())
                except UnicodeDecodeError as error:
                    why = "it is not UTF-8"
                    raise DMError("dump-file-not-understood", file=shown, offset=text.offset, why=why) from error
                if len(found) > 1:
                    why = "it has more than one statement"
                    raise DMError("dump-file-not-understood", file=shown, offset=text.offset, why=why)
        if not found:
            raise DMError("dump-file-not-understood", file=shown, offset=0, why="it has no statement")
        return found[0]


def read_foreign_dump(
    storage: DumpStorage, task: str, source_id: str, context: SourceContext, wanted: Callable[[TableName], bool]
) -> ForeignDump:
    """The tables and files of the place; `context` is the target's, for which such dumps are written."""
    place = _Place(storage, context)
    names = place.names()
    metadata = read_metadata(place)
    twice = [name for name in names if unpacked_name(name) != name and unpacked_name(name) in names]
    if twice:
        raise place.refused(f"{twice[0]} is there unpacked too, and its rows would be loaded twice")
    unreadable = [name for name in names if unpacked_name(name).endswith(_UNREADABLE)]
    if unreadable:
        raise place.refused(f"{unreadable[0]} is not SQL")
    schemas = {
        unpacked_name(name).removesuffix(_CREATE): _schema(place, name)
        for name in names
        if unpacked_name(name).endswith(_CREATE)
    }
    left_out = [name for name in names if unpacked_name(name).endswith(_LEFT_OUT)]
    views = {unpacked_name(name).removesuffix("-schema-view.sql") for name in left_out}
    tables: dict[str, DumpedTable] = {}
    for name in names:
        stem = unpacked_name(name).removesuffix(_SCHEMA)
        if stem == unpacked_name(name):
            continue
        if stem in views:  # mydumper stands a table in for a view
            left_out.append(name)
            continue
        schema = schemas[_only(place, name, [each for each in schemas if stem.startswith(f"{each}.")])][0]
        text = place.statement(name, schema)
        piece = Piece.of(text, replace(context, schema=schema))
        if piece.verb != "CREATE TABLE" or piece.table.schema != schema:
            raise DMError(
                "dump-file-not-understood", file=storage.shown(name), offset=0, why=f"{piece.verb} {piece.table}"
            )
        tables[stem] = DumpedTable(piece.table, text, bounds=(), form="sql")
    files: dict[str, list[str]] = {stem: [] for stem in tables}
    for name in names:
        base = unpacked_name(name)
        if base.endswith(".sql") and not base.endswith((_SCHEMA, _CREATE, *_LEFT_OUT)):
            files[_only(place, name, [stem for stem in _stems(base.removesuffix(".sql")) if stem in tables])].append(
                name
            )
    kept = {stem: table for stem, table in tables.items() if wanted(table.name)}
    try:
        point = point_of(metadata)
    except ValueError as error:
        raise place.refused(f"its file `metadata` {error}") from error
    plan = DumpPlan(
        _identity(names, metadata),
        task,
        source_id,
        context.flavor,
        context.version,
        "",
        point,
        point,
        tuple(kept.values()),
        schemas=dict(schemas.values()),
        consistent=True,
    )
    return ForeignDump(plan, {table.name: tuple(files[stem]) for stem, table in kept.items()}, tuple(left_out))


def _only(place: _Place, name: str, candidates: list[str]) -> str:
    if len(candidates) != 1:
        found = f"to several ({', '.join(candidates)})" if candidates else "to no schema or table of the dump"
        raise place.refused(f"{name} belongs {found}, going by its name")
    return candidates[0]


def _stems(base: str) -> Iterable[str]:
    """What a data file's name can be the name of: it ends in up to two numbers."""
    yield base
    for _ in range(2):
        match = _NUMBERS.fullmatch(base)
        if match is None:
            return
        base = match["stem"]
        yield base


def _schema(place: _Place, name: str) -> tuple[str, tuple[str, str]]:
    """Name, character set and collation of a schema."""
    text = place.statement(name, "")
    piece = Piece.of(text, place.context)
    if piece.verb not in ("CREATE DATABASE", "CREATE SCHEMA"):
        raise DMError("dump-file-not-understood", file=place.storage.shown(name), offset=0, why=piece.verb)
    found = {"CHARSET": "", "COLLATE": ""}
    tokens = [token for token in tokenize(piece.text, place.context) if token.text != "="]
    for before, token, value in zip(tokens, tokens[1:], tokens[2:], strict=False):
        word = "CHARSET" if (before.upper, token.upper) == ("CHARACTER", "SET") else token.upper
        if word in found:
            found[word] = value.text
    if not found["CHARSET"] and found["COLLATE"]:
        found["CHARSET"] = found["COLLATE"].partition("_")[0]
    if not found["CHARSET"]:
        why = "it names no character set"
        raise DMError("dump-file-not-understood", file=place.storage.shown(name), offset=0, why=why)
    return piece.table.schema, (found["CHARSET"], found["COLLATE"])


def read_metadata(place: _Place) -> str:
    """The text of `metadata`; raises DMError where the dump was not finished."""
    try:
        text = read_bytes(place.storage, METADATA_FILE, _LARGEST_METADATA).decode()
    except FileNotFoundError as error:
        raise place.refused("it has no file `metadata`, which is written when a dump is finished") from error
    except (OSError, ValueError) as error:
        raise place.refused(f"its file `metadata` can't be read: {error}") from error
    if "Finished dump at:" not in text:
        raise place.refused("its file `metadata` does not say that the dump was finished")
    return text


_KEYS: Final = {"log": "file", "file": "file", "pos": "offset", "position": "offset"} | dict.fromkeys(
    ("gtid", "executed_gtid_set"), "gtid"
)
_STATUS: Final = re.compile(r"SHOW (?:MASTER|BINARY LOG) STATUS:|\[(?:source|master)\]")
_ENTRY: Final = re.compile(r"([A-Za-z_]+)\s*[:=]\s*(.*)")
_LONGEST_OFFSET: Final = 19  # digits, of 64 bits
_SHOWN: Final = 60  # characters of what is refused
_GTIDS: Final = re.compile(r"[0-9A-Fa-f:,-]+")


def point_of(metadata: str) -> Position:
    """The first status of `metadata`, in dumpling's form and in that of mydumper 0.12 and later.

    Raises ValueError, with what the file has, where that is no place in a binlog.
    """
    found: dict[str, str] = {}
    lines = iter(metadata.splitlines())
    for line in lines:
        if _STATUS.fullmatch(line.strip()):
            break
    key = ""
    for line in map(str.strip, lines):
        entry = _ENTRY.fullmatch(line)
        if not line or line.startswith("["):
            break
        if entry is not None and entry[1].lower() in _KEYS:
            key = _KEYS[entry[1].lower()]
            found[key] = entry[2].strip().strip("\"'")
        elif key == "gtid" and _GTIDS.fullmatch(line):  # a set of several servers stands on several lines
            found[key] += line
    offset = found.get("offset", "") or "0"
    if not is_decimal(offset) or len(offset) > _LONGEST_OFFSET:
        raise ValueError(f"has the position {_shown(offset)}, which no binlog file has")
    return Position("", found.get("file", ""), int(offset), _gtids(found.get("gtid", "")))


def _gtids(text: str) -> GtidSet:
    try:
        return GtidSet.parse(text)
    except (ValueError, DMError) as error:
        raise ValueError(f"has the GTID set {_shown(text)}, which can't be read") from error


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..")


def _identity(names: list[str], metadata: str) -> str:
    """What the progress of a load belongs to; a file may be corrected, another dump has another `metadata`."""
    return hashlib.sha256("\0".join([metadata, *names]).encode()).hexdigest()[:32]
