"""Names that Spark ignores, and names that mean several tables."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event

import pytest

from dm.config.rules import BlockAllowList
from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import MANIFEST_FILE, PLAN_FILE, DumpPlan, load_plan
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.spark.session import SparkProvider
from dm.tools import lake
from tests.spark.full_load import FullLoad, dump_unit
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.spark]


@pytest.fixture
def load(mariadb: ThrowawayServer, schema: SchemaFactory, spark: SparkProvider, tmp_path: Path) -> Iterator[FullLoad]:
    made = FullLoad(mariadb, mariadb, schema(mariadb, prefix="_t"), tmp_path / "dump", spark, settings={"rows": 2})
    yield made
    made.forget()


def as_before(load: FullLoad, plan: DumpPlan) -> None:
    """The dump with the file names of earlier versions."""
    (table,) = plan.tables
    manifest = load.directory / MANIFEST_FILE
    text = manifest.read_text()
    for chunk in range(table.chunks):
        now, then = table.file_name(chunk), replace(table, visible=False).file_name(chunk)
        assert (now[:3], then[:1]) == ("%5F", "_")
        (load.directory / now).rename(load.directory / then)
        text = text.replace(f'"{now}"', f'"{then}"')
    manifest.write_text(text)
    stored = load.directory / PLAN_FILE
    told = json.loads(stored.read_text())
    del told["tables"][0]["visible"]
    stored.write_text(json.dumps(told))
    found = load_plan(load.storage)
    assert found is not None
    assert not found.tables[0].visible


def test_a_schema_that_begins_with_an_underscore_is_read_whole(load: FullLoad, spark: SparkProvider) -> None:
    load.upstream.execute(
        f"CREATE TABLE `{load.schema}`._t (id INT PRIMARY KEY)",
        f"INSERT INTO `{load.schema}`._t VALUES (1), (2), (3), (4), (5)",
    )
    plan, name = load.dump(), (load.schema, "_t")
    found = lake.table(spark.session(), load.directory, name).collect()
    assert sorted(row["id"] for row in found) == [1, 2, 3, 4, 5]
    as_before(load, plan)
    with pytest.raises(DMError) as caught:
        lake.table(spark.session(), load.directory, name)
    assert caught.value.name == "lake-files-ignored"
    assert f"{load.schema}._t.000.000000000.parquet" in str(caught.value)
    load.load()
    assert load.report().identical


@pytest.mark.parametrize("option", ["ignoreMissingFiles", "ignoreCorruptFiles"])
def test_a_session_that_leaves_out_files_does_not_do_so_here(load: FullLoad, spark: SparkProvider, option: str) -> None:
    load.upstream.execute(
        f"CREATE TABLE `{load.schema}`.t (id INT PRIMARY KEY)", f"INSERT INTO `{load.schema}`.t VALUES (1), (2), (3)"
    )
    (table,) = load.dump().tables
    session = spark.session()
    session.conf.set(f"spark.sql.files.{option}", "true")
    try:
        frame = lake.table(session, load.directory, table.name)
        path = load.directory / table.file_name(0)
        if option == "ignoreMissingFiles":
            path.unlink()
        else:
            path.write_bytes(bytes(path.stat().st_size))
        with pytest.raises(Exception, match=r"t\.000\.000000000\.parquet"):
            frame.collect()
    finally:
        session.conf.unset(f"spark.sql.files.{option}")


def test_names_that_mean_several_tables_are_refused(
    load: FullLoad, schema: SchemaFactory, spark: SparkProvider
) -> None:
    other = schema(load.upstream, prefix=f"{load.schema}.b")
    tables = [
        TableName(load.schema, f"{other.removeprefix(load.schema + '.')}.c"),
        TableName(other, "c"),
        TableName(other, "plain"),
    ]
    for number, table in enumerate(tables):
        load.upstream.execute(f"CREATE TABLE {table.sql} AS SELECT {number} AS own")
    allowed = BlockAllowList(do_dbs=(load.schema, other))
    subtask = load.subtask().model_copy(update={"block_allow_list": allowed, "mode": "dump"})
    dump_unit(subtask, load.storage, spark).run(Event())

    def own(name: str | tuple[str, str]) -> int:
        (row,) = lake.table(spark.session(), load.directory, name).collect()
        return int(row["own"])

    assert str(tables[0]) == str(tables[1])
    assert sorted(lake.tables(load.directory)) == sorted([tables[0].sql, tables[1].sql, f"{other}.plain"])
    assert [own(table) for table in tables] == [0, 1, 2]
    assert [own((table.schema, table.table)) for table in tables] == [0, 1, 2]
    assert [own(table.sql) for table in tables] == [0, 1, 2]
    assert own(f"{other}.plain") == 2
    with pytest.raises(DMError) as caught:
        own(str(tables[0]))
    assert caught.value.name == "lake-table-ambiguous"
    assert f"{Ident(other).sql}.`c`" in str(caught.value)
    with pytest.raises(DMError) as caught:
        own((other, "nothing"))
    assert caught.value.name == "lake-table-unknown"
