"""The record of equality: what the last comparisons of a task's tables have found, and as of when.

A comparison under way reads a chunk of the target first and of its sources after it, again and again where they differ.
So a table that is found equal has been so, chunk by chunk, at places of the sources' binlogs after those where the
comparison began. The record keeps these beginnings: what a source has written since then is all that may have made the
table different, as far as the source is concerned.

There is one row for each target table and source. A comparison of some rows or some columns takes no other's place:
both records stand. So it is with a comparison of what was written since the table was found equal (`RECENT`): it rests
on that record, and says how far the sources were when it began. A later comparison of recent rows goes on from there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from dm.downstream.connection import TargetConnection
from dm.gtid import GtidSet
from dm.ident import Ident, TableName
from dm.position import Position
from dm.progress.tables import CHARSET, SubtaskKey, existing_tables, reads
from dm.session.answers import reads_answers
from dm.unit import JSON

_TOGETHER: Final = 100  # records of a statement: each has a GTID set
RECENT: Final = "recent"  # the part of a table that was written since it was found equal
_DEFINITION: Final = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    target_schema VARCHAR(128) NOT NULL,
    target_table VARCHAR(128) NOT NULL,
    part VARCHAR(16) NOT NULL DEFAULT '',
    asked LONGTEXT NOT NULL,
    verdict VARCHAR(16) NOT NULL,
    source_rows BIGINT UNSIGNED NOT NULL,
    target_rows BIGINT UNSIGNED NOT NULL,
    chunks BIGINT UNSIGNED NOT NULL,
    digest VARCHAR(64) NOT NULL,
    server_uuid VARCHAR(64) NOT NULL,
    binlog_name VARCHAR(128) NOT NULL,
    binlog_pos BIGINT UNSIGNED NOT NULL,
    binlog_gtid MEDIUMTEXT NOT NULL,
    began BIGINT UNSIGNED NOT NULL,
    ended BIGINT UNSIGNED NOT NULL,
    basis VARCHAR(64) NOT NULL DEFAULT '',
    PRIMARY KEY (id, target_schema, target_table, part)
) ENGINE=InnoDB {charset}"""


@dataclass(frozen=True, slots=True)
class ComparedRecord:
    """One target table, as one comparison has found it."""

    table: TableName
    verdict: Literal["equal", "different"]
    source_rows: int  # of all sources
    target_rows: int
    chunks: int
    digest: str  # SHA-256 of the sums of all chunks in their order; "" where a chunk differs
    began: int  # seconds since the epoch
    ended: int
    part: str = ""  # which part of the table: a name for what was asked; "" for all of it
    asked: str = ""  # the same in words
    basis: str = ""  # a digest of the tables on all sides: with another one the record says nothing of them

    def to_json(self, places: dict[str, JSON]) -> dict[str, JSON]:
        """As `query-status` shows it; `places` of the sources where the comparison began."""
        return {
            "table": str(self.table), "verdict": self.verdict, "partly": self.asked, "sourceRows": self.source_rows,
            "targetRows": self.target_rows, "chunks": self.chunks, "digest": self.digest, "began": self.began,
            "ended": self.ended, "since": places,
        }  # fmt: skip


def store_compared(
    connection: TargetConnection, key: SubtaskKey, records: Sequence[ComparedRecord], since: Position | None
) -> None:
    """Put records in the place of earlier ones; `since` is the source's place, None where it does not tell it."""
    connection.execute(f"CREATE DATABASE IF NOT EXISTS {Ident(key.meta_schema).sql}")
    connection.execute(_DEFINITION.format(table=key.compared.sql, charset=CHARSET))
    if not _has_basis(connection, key):  # the table is an earlier build's
        connection.execute(f"ALTER TABLE {key.compared.sql} ADD COLUMN basis VARCHAR(64) NOT NULL DEFAULT ''")
    place = since or Position("", "", 0)
    connection.begin()
    for at in range(0, len(records), _TOGETHER):
        _replace(connection, key, records[at : at + _TOGETHER], place)
    connection.commit()


def _replace(connection: TargetConnection, key: SubtaskKey, records: Sequence[ComparedRecord], place: Position) -> None:
    whole = [each.table for each in records if not each.part]
    if whole:  # what was found in recent rows before is superseded, though it may be of the same second
        tables = ", ".join(["(%s, %s)"] * len(whole))
        connection.execute(
            f"DELETE FROM {key.compared.sql}"
            f" WHERE id = %s AND part = %s AND (target_schema, target_table) IN ({tables})",
            (key.source_id, RECENT, *(name for table in whole for name in table)),
        )
    rows = [
        (
            key.source_id, *each.table, each.part, each.asked, each.verdict, each.source_rows, each.target_rows,
            each.chunks, each.digest, place.server_uuid, place.file, place.offset, str(place.gtid_set),
            each.began, each.ended, each.basis,
        )
        for each in records
    ]  # fmt: skip
    values = ", ".join([f"({', '.join(['%s'] * len(row))})" for row in rows])
    connection.execute(
        f"REPLACE INTO {key.compared.sql} (id, target_schema, target_table, part, asked, verdict, source_rows,"
        " target_rows, chunks, digest, server_uuid, binlog_name, binlog_pos, binlog_gtid, began, ended, basis)"
        f" VALUES {values}",
        tuple(value for row in rows for value in row),
    )


@reads(lambda key: key.compared)
def read_compared(connection: TargetConnection, key: SubtaskKey) -> list[dict[str, JSON]]:
    """The last of each table of the subtask, as JSON, by name. Safe before the table exists."""
    if key.compared not in existing_tables(connection, key):
        return []
    rows = connection.query(
        "SELECT target_schema, target_table, verdict, source_rows, target_rows, chunks, digest, began, ended, part,"
        f" asked, binlog_name, binlog_pos, binlog_gtid FROM {key.compared.sql} WHERE id = %s"
        " ORDER BY target_schema, target_table, part",
        (key.source_id,),
    )
    found = []
    for schema, table, verdict, *numbers, part, asked, file, offset, gtids in rows:
        sources, targets, chunks, digest, began, ended = numbers
        record = ComparedRecord(
            TableName(str(schema), str(table)), "equal" if str(verdict) == "equal" else "different", int(sources),
            int(targets), int(chunks), str(digest), int(began), int(ended), str(part), str(asked),
        )  # fmt: skip
        place: dict[str, JSON] = {"binlog": f"({file}, {int(offset)})" if file else "", "gtidSet": str(gtids)}
        found.append(record.to_json(place))
    return found


@dataclass(frozen=True, slots=True)
class EqualSince:
    """What the records say of a table and a source, as far as all of the table is concerned."""

    place: Position  # what the source has written up to here is at the target
    at: int  # when the comparison of all rows began, in seconds since the epoch
    basis: str
    different: bool  # the last one has found differences

    @property
    def known(self) -> bool:
        """Whether what was written since can be known."""
        return bool(self.place.file and self.basis)


@reads_answers
def _has_basis(connection: TargetConnection, key: SubtaskKey) -> bool:
    found = connection.query(
        "SELECT 1 FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s AND column_name = 'basis'",
        (key.compared.schema, key.compared.table),
    )
    return bool(found)


@reads(lambda key: key.compared)
def read_equal(connection: TargetConnection, key: SubtaskKey) -> dict[str, EqualSince]:
    """By the target's tables, folded, what may be built upon; safe before the table exists."""
    if key.compared not in existing_tables(connection, key) or not _has_basis(connection, key):
        return {}
    rows = connection.query(
        "SELECT target_schema, target_table, part, verdict, server_uuid, binlog_name, binlog_pos, binlog_gtid, began,"
        f" basis FROM {key.compared.sql} WHERE id = %s AND part IN ('', '{RECENT}')",
        (key.source_id,),
    )
    found: dict[str, dict[str, EqualSince]] = {}
    for schema, table, part, verdict, server, file, offset, gtids, began, basis in rows:
        place = Position(str(server), str(file), int(offset), GtidSet.parse(str(gtids)))
        record = EqualSince(place, int(began), str(basis), str(verdict) != "equal")
        found.setdefault(str(TableName(str(schema), str(table))).lower(), {})[str(part)] = record
    chosen = {name: _chosen(parts.get(""), parts.get(RECENT)) for name, parts in found.items()}
    return {name: record for name, record in chosen.items() if record is not None and record.known}


def _chosen(whole: EqualSince | None, recent: EqualSince | None) -> EqualSince | None:
    """A comparison of recent rows that began later rests on the one of all rows, or on an equal one before that."""
    if whole is None or recent is None or whole.different or recent.at < whole.at or recent.basis != whole.basis:
        return whole
    return replace(recent, at=whole.at)
