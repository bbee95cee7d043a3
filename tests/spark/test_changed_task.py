"""A task file that is changed in the middle of a full load: rows are where the new one says, or it is refused."""

from __future__ import annotations

import threading

import pytest

from dm.config.route import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.unit import LoadUnit
from dm.spark import job
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import dump_unit, rows

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
        unit(changed, load.directory, load.spark).run(threading.Event())
    assert caught.value.name == "load-route-changed"
    for name in (load.schema, load.target_schema, elsewhere):
        assert str(TableName(name, "keyed")) in caught.value.message
    assert rows(mariadb, f"SHOW DATABASES LIKE '{elsewhere}'") == []
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)
