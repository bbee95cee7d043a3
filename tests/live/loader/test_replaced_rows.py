"""Rows that meet in a key which only the target has are known by the source's key, whatever type that is of."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import repeat

import pyarrow
import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumper.chunk_reader import select_text
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.literals import STRICT_MODE
from dm.dumpfiles.text_rows import Limits, read_batches
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.part_writer import PartWriter
from dm.loader.replaced_rows import own_keys
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.table import Index, IndexPart
from dm.mysql.sql.context import SourceContext, version_number
from dm.progress.load_parts import LoadRun
from dm.progress.tables import SubtaskKey
from dm.sourcelog.upstream.facts import row_session
from tests.live.changes.tables import endpoint_of
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live]

# Two values of a type, neighbours where it has such.
TYPES = {
    "TINYINT UNSIGNED": ("254", "255"),
    "BIGINT UNSIGNED": ("18446744073709551614", "18446744073709551615"),
    "FLOAT": ("1.1", "1.1000001"),
    "DOUBLE": ("0.1", "0.10000000000000002"),
    "DECIMAL(30,10)": ("1.0000000001", "1.0000000002"),
    "BIT(3)": ("5", "6"),
    "BIT(64)": ("18446744073709551614", "18446744073709551615"),
    "YEAR": ("2001", "2002"),
    "DATE": ("'2020-02-28'", "'2020-02-29'"),
    "TIME(3)": ("'-10:00:00.001'", "'-10:00:00.002'"),
    "DATETIME(6)": ("'2020-01-01 00:00:00.000001'", "'2020-01-01 00:00:00.000002'"),
    "TIMESTAMP(3)": ("'2020-01-01 00:00:00.001'", "'2020-01-01 00:00:00.002'"),
    "CHAR(5)": ("'ä'", "'ö'"),
    "VARCHAR(20) CHARACTER SET latin1": ("'ä'", "'ö'"),
    "VARBINARY(20)": ("x'00ff'", "x'00fe'"),
    "BINARY(3)": ("x'00ff'", "x'00fe'"),
    "ENUM('a','ö','')": ("'a'", "'ö'"),
    "SET('a','b','c')": ("'a,b'", "'a,c'"),
}
OF_MARIADB = {
    "UUID": ("'123e4567-e89b-12d3-a456-426655440000'", "'123e4567-e89b-12d3-a456-426655440001'"),
    "INET6": ("'::1'", "'::2'"),
}


@pytest.fixture
def session(target: ThrowawayServer) -> Iterator[TargetConnection]:
    with closing(TargetConnection(endpoint_of(target))) as connection:
        connection.execute(f"SET SESSION sql_mode = '{STRICT_MODE}'")
        yield connection


class Met:
    """A table whose rows meet at the target, with a key of one type."""

    def __init__(self, upstream: ThrowawayServer, session: TargetConnection, here: TableName, there: TableName) -> None:
        self.upstream, self.session = upstream, session
        self.here, self.there = here, there

    def make(self, kind: str) -> None:
        """The table, empty."""
        rest = f"k {kind} NOT NULL PRIMARY KEY, a INT"
        self.upstream.execute(f"DROP TABLE IF EXISTS {self.here.sql}", f"CREATE TABLE {self.here.sql} ({rest})")
        self.session.execute(f"DROP TABLE IF EXISTS {self.there.sql}")
        self.session.execute(f"CREATE TABLE {self.there.sql} ({rest}, UNIQUE KEY by_a (a))")
        version = version_number(str(self.upstream.query("SELECT VERSION()")[0][0]))
        context = SourceContext(self.upstream.flavor, version, self.here.schema)
        text = self.upstream.query(f"SHOW CREATE TABLE {self.here.sql}")[0][1]
        self.schema = parse_create_table(str(text), context)

    def read(self) -> pyarrow.RecordBatch:
        """All rows as a dump has them."""
        with closing(row_session(endpoint_of(self.upstream))) as connection:
            (batch,) = read_batches(connection, select_text(self.schema, None), repeat(Limits(1000, 1 << 20)))
        return pyarrow.record_batch(batch.columns, names=["k", "a"])

    def write(self, batch: pyarrow.RecordBatch) -> None:
        """Load them; what is written is taken back."""
        source = self.schema
        target = replace(source, name=self.there, indexes=(*source.indexes, Index("by_a", "unique", (IndexPart("a"),))))
        into = Destination(self.there, source.columns, unique=True, key=("k",), own_keys=own_keys(source, target))
        run = LoadRun(SubtaskKey(f"meta_{self.there.schema}", "t", "s"), "dump", 1)
        writer = PartWriter(self.session, run, "replace", self.here, into, endpoint_of(self.upstream))
        self.session.begin()
        try:
            writer.write(lambda names: [batch.select(list(names))], typed=False)
        finally:
            self.session.rollback()


@pytest.mark.ci_flavor("mysql")
def test_a_row_to_which_a_trigger_gives_another_key_ends_the_load(
    upstream: ThrowawayServer, target: ThrowawayServer, session: TargetConnection, schema: SchemaFactory
) -> None:
    met = Met(upstream, session, TableName(schema(upstream), "t"), TableName(schema(target), "t"))
    met.make("INT")
    upstream.execute(f"INSERT INTO {met.here.sql} VALUES (1, 1), (2, 1)")
    there = met.there
    target.execute(
        f"CREATE TRIGGER `{there.schema}`.moves BEFORE INSERT ON {there.sql} FOR EACH ROW SET NEW.k = NEW.k + 100"
    )
    with pytest.raises(DMError) as caught:
        met.write(met.read())
    assert caught.value.name == "load-row-not-found"
    assert "k=2" in caught.value.message
    # The way out that it names.
    target.execute(f"DROP TRIGGER `{there.schema}`.moves")
    with pytest.raises(DMError) as caught:
        met.write(met.read())
    assert caught.value.name == "load-row-replaced"


@pytest.mark.ci_flavor("mysql")
def test_a_row_is_known_by_a_key_of_any_type(
    upstream: ThrowawayServer, target: ThrowawayServer, session: TargetConnection, schema: SchemaFactory
) -> None:
    """Two rows meet, among others: of those that are still there both are named, one that has gone is no reason."""
    met = Met(upstream, session, TableName(schema(upstream), "t"), TableName(schema(target), "t"))
    for kind, (first, second) in {**TYPES, **(OF_MARIADB if upstream.flavor == "mariadb" else {})}.items():
        met.make(kind)
        upstream.execute(f"INSERT INTO {met.here.sql} VALUES ({first}, 1), ({second}, 1)")
        batch = met.read()
        with pytest.raises(DMError) as caught:
            met.write(batch)
        assert (kind, caught.value.name) == (kind, "load-row-replaced"), caught.value
        # The first row of the batch has moved meanwhile, which the stream brings.
        upstream.execute(f"UPDATE {met.here.sql} SET a = 2 ORDER BY k LIMIT 1")
        try:
            met.write(batch)
        except DMError as error:
            raise AssertionError(kind) from error
