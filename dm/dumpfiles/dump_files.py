"""What a dump leaves on disk, and how a crash finds its way back into it.

    dump.json                              the plan: points, tables, chunk bounds; replaced in one step, never edited
    {schema}.{table}.{generation}.{chunk}.parquet    the rows of one chunk, every value the server's own bytes
    {schema}.{table}.{chunk}.sql                     or that, with `dump-format: sql`, as INSERT statements
    {schema}-schema-create.sql, {schema}.{table}-schema.sql, metadata    for people and tools, in dumpling's form
    manifest.json                          every file of the finished dump with its size and SHA-256

A chunk file is complete or it is not there: it is written under another name, synced, and then *linked* to its own
name, which fails if the name exists (in object storage it is sent in parts and made by one conditional request). So a
worker that outlived its driver can't replace a file after P1 was read, which would smuggle in rows from after P1. Its
footer repeats which dump, table, generation and chunk it belongs to; files of another dump or of a table's earlier
generation are not counted. The plan is written only when a phase of the dump ends; which chunks are done is what the
files themselves say.

The files of a dump in its place: whose they are, and removing what is ours.

Problem: `loaders.dir` names a directory of the user's. A dump must never wipe what somebody else's dump has left there,
a load must never take the remains of a removal for a dump, and a process may die between any two files.

So every file of ours exists only while the plan (`dump.json`) or the mark of a removal exists: the plan is stored
before the first chunk is written, and a removal begins by renaming the plan to that mark and ends by removing the mark.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyarrow import parquet

from dm.changes.computing import SourceSettings
from dm.dumpfiles.chunk_plan import Bound
from dm.dumpfiles.literals import read_trailer
from dm.dumpfiles.storage import DumpStorage, read_bytes
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.sourcelog.stream.file_births import UNKNOWN, FileBirth, birth_from_json, birth_to_json
from dm.stored_format import DUMP

FOOTER_KEY = b"dm.chunk"
STREAMED = "stream"  # the form of a table whose chunks go into the target without files
_LONGEST_STEM = 180
_CHUNKS = 10**9


# What dumpling writes as `%2E` and so on: its file names are cut at dots and at `-schema`, and some file systems refuse
# the others (dumpling/export/util.go).
_ESCAPED = re.compile(r'[\x00-\x1f%"*./:<>?\\|]|-(?=schema)', re.IGNORECASE)


def file_stem(table: TableName) -> str:
    """What file names of a table begin with; dumpling escapes names the same way."""
    schema, name = (_ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", part) for part in table)
    stem = f"{schema}.{name}" if table.table else schema
    if len(stem.encode()) <= _LONGEST_STEM:
        return stem
    # A file name has 255 bytes, two names of 64 characters can need more when they are escaped.
    digest = hashlib.sha256("\0".join(table).encode()).hexdigest()
    return f"{stem.encode()[:100].decode(errors='ignore')}~{digest[:32]}"


@dataclass(frozen=True, slots=True)
class DumpedTable:
    """One table of the dump, as planned."""

    name: TableName
    structure: str  # SHOW CREATE TABLE
    generation: int = 0  # the round in which it entered
    keyless: bool = False
    point: Position | None = None  # its own point; None: the dump's P0
    bounds: tuple[Bound, ...] | None = None  # None: not planned yet
    estimated_rows: int = 0
    chunk_rows: int = 0
    form: str = "parquet"  # of its chunk files; or "sql", or STREAMED
    visible: bool = True  # its files' names do not begin with `_`; dumps of before had such files

    @property
    def chunks(self) -> int:
        """How many chunk files there will be."""
        return len(self.bounds or ()) + 1

    @property
    def weight(self) -> float:
        """How much each of its chunks is expected to hold, as a share of a full one."""
        return self.estimated_rows / self.chunks / self.chunk_rows if self.chunk_rows else 0.0

    def file_name(self, chunk: int) -> str:
        """The name of a chunk's file."""
        if self.form == "sql":
            # One number, as dumpling has it. Later generations are beyond all chunks of the first.
            return f"{file_stem(self.name)}.{self.generation * _CHUNKS + chunk:09d}.sql"
        stem = file_stem(self.name)
        if self.visible and stem.startswith("_"):
            stem = "%5F" + stem[1:]  # Spark and Hadoop pass over such files without a word
        return f"{stem}.{self.generation:03d}.{chunk:09d}.parquet"


@dataclass(frozen=True, slots=True)
class DumpPlan:
    """Everything about a dump that must survive a crash."""

    dump_id: str
    task: str
    source_id: str
    flavor: str
    version: int
    server_uuid: str
    p0: Position
    p1: Position | None = None  # known when the dump is finished
    tables: tuple[DumpedTable, ...] = ()
    vanished: Mapping[TableName, Position] = field(default_factory=dict)
    schemas: Mapping[str, tuple[str, str]] = field(default_factory=dict)  # character set and collation of each schema
    consistent: bool = False  # all rows are of one moment, P0 = P1
    rounds: int = 0  # how often tables had to be read again
    started: float = 0.0  # seconds since the epoch
    where: str = ""  # which rows were asked for
    unsettled: tuple[TableName, ...] = ()  # seen around a point, but not long enough to enter
    birth: FileBirth | None = None  # of P0's file
    left_out: tuple[TableName, ...] = ()  # there when the dump began, and not wanted; dumps of before don't tell
    settings: SourceSettings = field(default_factory=SourceSettings)  # dumps of before don't tell

    @property
    def finished(self) -> bool:
        """Whether every chunk was read and P1 is known."""
        return self.p1 is not None

    @property
    def streamed(self) -> bool:
        """Whether rows of some table are in the target and in no file."""
        return any(table.form == STREAMED for table in self.tables)

    def with_tables(self, *tables: DumpedTable) -> DumpPlan:
        """The plan with these tables in place of those of the same name."""
        merged = {table.name: table for table in self.tables} | {table.name: table for table in tables}
        return replace(self, tables=tuple(merged.values()))


@dataclass(frozen=True, slots=True)
class ChunkFooter:
    """What a chunk file says about itself."""

    dump_id: str
    table: TableName
    generation: int
    chunk: int
    rows: int
    size: int  # bytes of the values as they came from the server
    point: Position | None = None  # of a table read from one snapshot
    structure: str | None = None

    def to_text(self) -> str:
        """The footer's JSON."""
        return json.dumps(
            {
                "dump": self.dump_id,
                "table": list(self.table),
                "generation": self.generation,
                "chunk": self.chunk,
                "rows": self.rows,
                "size": self.size,
                "point": _position_out(self.point),
                "structure": self.structure,
            }
        )

    @classmethod
    def from_text(cls, text: str | bytes) -> ChunkFooter:
        """Read the footer's JSON."""
        found = json.loads(text)
        return cls(
            found["dump"],
            TableName(*found["table"]),
            found["generation"],
            found["chunk"],
            found["rows"],
            found["size"],
            _position_in(found["point"]),
            found["structure"],
        )


def _position_out(position: Position | None) -> dict[str, object] | None:
    if position is None:
        return None
    return {
        "server_uuid": position.server_uuid,
        "file": position.file,
        "offset": position.offset,
        "flavor": position.flavor,
        "gtid_set": str(position.gtid_set),
    }


def _position_in(found: Any) -> Position | None:
    if found is None:
        return None
    gtids = GtidSet.parse(found["gtid_set"], found["flavor"])
    return Position(found["server_uuid"], found["file"], found["offset"], gtids)


def plan_to_text(plan: DumpPlan) -> str:
    """The plan's JSON."""
    return json.dumps(
        {
            "format": DUMP.number,
            "dump": plan.dump_id,
            "task": plan.task,
            "source": plan.source_id,
            "flavor": plan.flavor,
            "version": plan.version,
            "server_uuid": plan.server_uuid,
            "p0": _position_out(plan.p0),
            "p1": _position_out(plan.p1),
            "tables": [
                {
                    "name": list(table.name),
                    "structure": table.structure,
                    "generation": table.generation,
                    "keyless": table.keyless,
                    "point": _position_out(table.point),
                    "bounds": None if table.bounds is None else [list(bound) for bound in table.bounds],
                    "estimated_rows": table.estimated_rows,
                    "chunk_rows": table.chunk_rows,
                    "form": table.form,
                    "visible": table.visible,
                }
                for table in plan.tables
            ],
            "vanished": [[list(name), _position_out(point)] for name, point in plan.vanished.items()],
            "schemas": {name: list(pair) for name, pair in plan.schemas.items()},
            "consistent": plan.consistent,
            "rounds": plan.rounds,
            "started": plan.started,
            "where": plan.where,
            "unsettled": [list(name) for name in plan.unsettled],
            "birth": birth_to_json(plan.birth),
            "left_out": [list(name) for name in plan.left_out],
            "settings": plan.settings.to_json(),
        },
        indent=1,
    )


def plan_from_text(text: str, where: str) -> DumpPlan:
    """Read the plan's JSON, which stands there; raises DMError where a newer dm has stored it."""
    found = json.loads(text)
    DUMP.demand_known(found["format"], where)
    p0 = _position_in(found["p0"])
    assert p0 is not None
    tables = tuple(
        DumpedTable(
            TableName(*table["name"]),
            table["structure"],
            table["generation"],
            table["keyless"],
            _position_in(table["point"]),
            None if table["bounds"] is None else tuple(tuple(bound) for bound in table["bounds"]),
            table["estimated_rows"],
            table["chunk_rows"],
            table.get("form", "parquet"),
            table.get("visible", False),
        )
        for table in found["tables"]
    )
    vanished: dict[TableName, Position] = {}
    for name, point in found["vanished"]:
        position = _position_in(point)
        assert position is not None
        vanished[TableName(*name)] = position
    return DumpPlan(
        found["dump"],
        found["task"],
        found["source"],
        found["flavor"],
        found["version"],
        found["server_uuid"],
        p0,
        _position_in(found["p1"]),
        tables,
        vanished,
        {name: (pair[0], pair[1]) for name, pair in found["schemas"].items()},
        found["consistent"],
        found["rounds"],
        found.get("started", 0.0),
        found.get("where", ""),
        tuple(TableName(*name) for name in found.get("unsettled", ())),
        birth_from_json(found.get("birth", UNKNOWN)),
        tuple(TableName(*name) for name in found.get("left_out", ())),
        SourceSettings.from_json(found["settings"]) if "settings" in found else SourceSettings(),
    )


def save_plan(storage: DumpStorage, plan: DumpPlan) -> None:
    """Store the plan."""
    with storage.writing():
        storage.store({PLAN_FILE: plan_to_text(plan).encode()})


def load_plan(storage: DumpStorage) -> DumpPlan | None:
    """The stored plan; None when no dump was begun here."""
    try:
        return plan_from_text(read_bytes(storage, PLAN_FILE).decode(), storage.shown(PLAN_FILE))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError) as error:
        raise DMError("dump-file-damaged", file=storage.shown(PLAN_FILE), why=str(error)) from error


def read_footer(storage: DumpStorage, name: str) -> ChunkFooter | None:
    """What a file says about itself; None when there is no such file, DMError when it is not whole."""
    try:
        if name.endswith(".sql"):
            with storage.open(name) as text:
                return ChunkFooter.from_text(read_trailer(text, storage.shown(name)).footer)
        with parquet.ParquetFile(storage.arrow_source(name)) as file:
            metadata = file.metadata
            footer = ChunkFooter.from_text((metadata.metadata or {})[FOOTER_KEY])
            rows = metadata.num_rows
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise DMError("dump-file-damaged", file=storage.shown(name), why=str(error)) from error
    if footer.rows != rows:
        raise DMError("dump-file-damaged", file=storage.shown(name), why=f"{rows} rows instead of {footer.rows}")
    return footer


def finished_chunk(storage: DumpStorage, plan: DumpPlan, table: DumpedTable, chunk: int) -> ChunkFooter | None:
    """The footer of a chunk that is done; None when it has to be read (again)."""
    footer = read_footer(storage, table.file_name(chunk))
    if footer is None:
        return None
    if (footer.dump_id, footer.table, footer.generation, footer.chunk) != (
        plan.dump_id,
        table.name,
        table.generation,
        chunk,
    ):
        return None
    return footer


PLAN_FILE: Final = "dump.json"
MANIFEST_FILE: Final = "manifest.json"
METADATA_FILE: Final = "metadata"
SLOTS_DIRECTORY: Final = ".slots"  # where the sessions of a consistent dump meet

_REMOVAL = ".dump-removed.json"
# Names as `dump_files` and `atomic_file` make them: chunks end with two numbers, temporary files begin with a dot.
_OURS = re.compile(
    r"metadata|manifest\.json|\..+\.tmp"
    r"|.+(\.[0-9]{3,}\.[0-9]{9,}\.parquet|\.[0-9]{9,}\.sql|-schema\.sql|-schema-create\.sql)"
)
_DUMP_LIKE = re.compile(r"metadata(\.partial)?|.*(\.parquet|\.sql(\.gz|\.zst)?|\.dat|\.csv)", re.DOTALL)


def foreign_file(storage: DumpStorage) -> str | None:
    """The name of a file of a dump that is not ours; None where there is none."""
    names = storage.names()
    if PLAN_FILE in names or _REMOVAL in names:
        return None
    return min((name for name in names if _DUMP_LIKE.fullmatch(name)), default=None)


def remove_files(storage: DumpStorage) -> None:
    """Remove what a dump of ours has written here, and nothing else."""
    names = storage.names()
    if PLAN_FILE in names:
        storage.rename(PLAN_FILE, _REMOVAL)
    if PLAN_FILE in names or _REMOVAL in names:
        storage.remove(name for name in storage.names() if _OURS.fullmatch(name))
        shutil.rmtree(storage.work / SLOTS_DIRECTORY, ignore_errors=True)
        storage.remove([_REMOVAL])
    storage.leave()
