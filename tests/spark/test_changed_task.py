"""A task file that is changed in the middle of a full load: rows are where the new one says, or it is refused."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from dm import faults
from dm.config.rules import BlockAllowList, RouteRule, TablePattern
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.unit import LoadUnit
from dm.spark import job
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, dump_unit, follow, rows

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]

KEYED = ("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)")


@pytest.mark.parametrize("form", ["parquet", "sql", "stream"])
def test_rows_of_one_table_do_not_go_to_two(
    form: str, mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {"dump_files": "none"} if form == "stream" else {"dump_format": form}
    load = full_load(mariadb, mariadb, *KEYED, rows=1, threads=1, **kept)
    monkeypatch.setattr(job, "_workers_lost", False)
    if form != "stream":
        load.dump()
    monkeypatch.setenv("DM_FAULTS", "loader.chunk_committed=error")
    with pytest.raises(DMError):
        load.dump() if form == "stream" else load.load()
    monkeypatch.delenv("DM_FAULTS")
    there = rows(mariadb, f"SELECT COUNT(*) FROM `{load.target_schema}`.keyed")
    assert there != [(0,)]
    elsewhere = f"{load.target_schema}_2"
    changed = load.subtask().model_copy(
        update={"routes": (RouteRule(schema_pattern=load.schema, target_schema=elsewhere),)}
    )
    unit = dump_unit if form == "stream" else LoadUnit
    with pytest.raises(DMError) as caught:
        unit(changed, load.storage, load.spark).run(threading.Event())
    assert caught.value.name == "load-route-changed"
    for name in (load.schema, load.target_schema, elsewhere):
        assert str(TableName(name, "keyed")) in caught.value.message
    assert rows(mariadb, f"SHOW DATABASES LIKE '{elsewhere}'") == []
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


OTHER = ("CREATE TABLE other (id INT PRIMARY KEY, v INT)", "INSERT INTO other VALUES (1, 1), (2, 2)")


def dump_without_other(load: FullLoad) -> None:
    lists = BlockAllowList(do_dbs=(load.schema,), ignore_tables=(TablePattern(db_name=load.schema, tbl_name="other"),))
    config = load.subtask().model_copy(update={"block_allow_list": lists})
    dump_unit(config, load.storage, load.spark).run(threading.Event())


@pytest.mark.parametrize("settings", [{}, {"dump_files": "none"}, {"mode": "full"}, {"mode": "load"}], ids=str)
def test_tables_that_a_finished_dump_left_out_are_missed(
    settings: dict[str, str], mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *OTHER, **settings)
    dump_without_other(replace(load, settings={"mode": "dump"}) if settings == {"mode": "load"} else load)
    if settings == {"mode": "load"}:  # asks for what there is
        load.load()
        assert rows(mariadb, f"SHOW TABLES FROM `{load.target_schema}`") == [("keyed",)]
        return
    load.dump()
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "load-tables-left-out"
    assert f"now include {TableName(load.schema, 'other')}, which" in caught.value.message


def test_a_table_that_was_made_after_a_dump_comes_by_the_binlog(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    dump_without_other(load)
    mariadb.execute(f"USE `{load.schema}`", *OTHER)
    load.dump()
    load.load()
    follow(load)


@pytest.mark.parametrize("files", ["all", "none"])
def test_tables_that_the_lists_add_come_along_while_the_dump_is_under_way(
    files: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *OTHER, dump_files=files)
    faults.arm("dumper.before_p1=error")
    with pytest.raises(faults.FaultError):
        dump_without_other(load)
    mariadb.execute(f"INSERT INTO `{load.schema}`.other VALUES (3, 3)")
    load.dump()
    load.load()
    follow(load)
