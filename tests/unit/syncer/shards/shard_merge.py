"""Shards and their target as the policy alone moves them: tables with rows, and an oracle that keeps every value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from dm.ident import TableName
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.merged_table import filling, fits, needs_value
from dm.mysql.schema.normal import same_column
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.tracker import SchemaState, interpret
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.syncer.shards.optimistic_policy import OtherShard, Surrounding, Verdict, decide, dismiss

CONTEXT = SourceContext("mysql", 90700, "d")
TARGET = TableName("d", "t")
FIRST = "id INT PRIMARY KEY, v INT NOT NULL, n INT, c VARCHAR(10) DEFAULT 'x', KEY by_c (c)"
WORDS = Collated("utf8mb4", "utf8mb4_0900_ai_ci")

Row = dict[str, object]


def table(name: TableName, columns: str = FIRST, partitions: Sequence[str] = ()) -> TableSchema:
    """A table of these columns and partitions."""
    found = parse_create_table(f"CREATE TABLE x ({columns}) CHARSET utf8mb4", CONTEXT)
    return replace(found, name=name, partitions=tuple(partitions))


def altered(schema: TableSchema, text: str) -> TableSchema:
    """The table after a statement of one operation."""
    piece = Piece.of(text, CONTEXT)
    return interpret(piece, SchemaState({schema.name: schema}.get, lambda _: WORDS)).get(schema.name) or schema


@dataclass
class Side:
    """A table with rows: what a server does with values is what `filling` says, and nothing is clever here."""

    schema: TableSchema
    rows: list[tuple[str, Row]] = field(default_factory=list)  # whose they are

    def alter(self, text: str) -> None:
        """One statement, here."""
        before, self.schema = self.schema, altered(self.schema, text)
        for _, row in self.rows:
            for name in list(row):
                if self.schema.column(name) is None:
                    del row[name]
            for column in self.schema.columns:
                if before.column(column.name) is None:
                    found = filling(column)
                    assert found is not None
                    row[column.name] = found.value

    def insert(self, owner: str, values: Row) -> Row:
        """A row with these values and defaults elsewhere; as strict as a server."""
        row = dict(values)
        for column in self.schema.columns:
            if column.name not in row:
                assert not needs_value(column), f"{column.name} needs a value"
                found = filling(column)
                assert found is not None
                row[column.name] = found.value
        assert set(row) == {column.name for column in self.schema.columns}
        for column in self.schema.columns:
            assert column.nullable or row[column.name] is not None, f"{column.name} is NOT NULL"
        self.rows.append((owner, row))
        return row


class Merge:
    """Shards and their target, by the policy alone."""

    def __init__(self, shards: Sequence[str], columns: str = FIRST, partitions: Sequence[str] = ()) -> None:
        self.target = Side(table(TARGET, columns, partitions))
        self.shards = {name: Side(table(TableName("d", name), columns, partitions)) for name in shards}
        self.kept = {name: frozenset[str]() for name in shards}
        self.loose = frozenset[str]()
        self.next = 0

    def around(self, name: str) -> Surrounding:
        """What a shard's statement meets."""
        others = tuple(
            OtherShard(other, side.schema, self.kept[other]) for other, side in self.shards.items() if other != name
        )
        return Surrounding(self.target.schema, others, self.loose, self.kept.get(name, frozenset()))

    def run(self, name: str, text: str) -> Verdict:
        """A shard is altered, and the target gets what it is to get."""
        side = self.shards[name]
        pieces = split(text.replace("@", f"d.{name}"), CONTEXT)
        verdict = decide(pieces, side.schema, self.around(name), lambda _: WORDS)
        if verdict.gate:
            return verdict
        for statement in [*(one for each in verdict.statements for one in each), *verdict.narrowing]:
            self.target.alter(statement.replace(f"d.{name}", "d.t").replace(f"`d`.`{name}`", "d.t"))
        for piece in pieces:
            side.alter(piece.text)
        self.loose, self.kept[name] = verdict.loose, verdict.kept
        there = {column.name.lower() for column in self.target.schema.columns}
        self.kept = {each: kept & there for each, kept in self.kept.items()}
        return verdict

    def leave(self, name: str) -> Verdict:
        """A shard is dropped; its rows stay at the target."""
        side, around = self.shards[name], self.around(name)
        verdict = dismiss(side.schema, around, CONTEXT, lambda _: WORDS)
        for statement in verdict.narrowing:
            self.target.alter(statement.replace(f"`d`.`{name}`", "d.t"))
        self.loose = verdict.loose
        del self.shards[name], self.kept[name]
        return verdict

    def row(self, name: str, value: object = "5") -> None:
        """A shard gets a row, and the target what the shard's columns say."""
        self.next += 1
        side = self.shards[name]
        values: Row = {column.name: str(self.next) if column.name == "id" else value for column in side.schema.columns}
        side.insert(name, values)
        self.target.insert(name, values)

    def check(self) -> None:
        """The target accepts each shard's rows, and has those that there are."""
        for name, side in self.shards.items():
            assert not self.target.schema.partitions or set(side.schema.partitions) <= set(
                self.target.schema.partitions
            )
            for column in side.schema.columns:
                there = self.target.schema.column(column.name)
                assert there is not None, f"{name} has {column.name}, the target has not"
                assert fits(column, there)
                assert there.nullable or not column.nullable
            for there in self.target.schema.columns:
                assert side.schema.column(there.name) is not None or not needs_value(there)
            owned = [row for owner, row in self.target.rows if owner == name]
            assert [
                {column: row[column] for column in mine} for row, (_, mine) in zip(owned, side.rows, strict=True)
            ] == [mine for _, mine in side.rows]

    def check_same(self) -> None:
        """All shards are alike now, and so is the target."""
        shard = next(iter(self.shards.values())).schema
        assert sorted(column.name for column in shard.columns) == sorted(
            column.name for column in self.target.schema.columns
        )
        for column in shard.columns:
            there = self.target.schema.column(column.name)
            assert there is not None
            assert same_column(there, column), f"{there} is not {column}"
        assert {index.name for index in shard.indexes} == {index.name for index in self.target.schema.indexes}
        assert not self.loose
