"""A full load whose dump is in object storage: copied, killed at every point, and gone when it is loaded."""

from __future__ import annotations

import signal
import threading
import time
import uuid
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.dumpfiles.dump_files import MANIFEST_FILE, METADATA_FILE, PLAN_FILE, load_plan
from dm.dumpfiles.manifest import read_manifest, sha256_of
from dm.dumpfiles.s3_storage import S3Storage
from dm.errors import DMError
from dm.loader.unit import LoadUnit
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, follow, wait_for
from tests.testbed.s3 import S3Server

pytestmark = [pytest.mark.live, pytest.mark.spark]

TABLES = (
    "CREATE TABLE keyed (id INT PRIMARY KEY, t TEXT, j JSON)",
    "INSERT INTO keyed SELECT seq, REPEAT(CHAR(65 + seq % 26), seq % 300), JSON_OBJECT('a', seq) FROM seq_1_to_4000",
    "CREATE TABLE keyless (a INT, b VARBINARY(100))",
    "INSERT INTO keyless SELECT seq, REPEAT(CHAR(seq % 256), 50) FROM seq_1_to_3000",
    "CREATE TABLE empty (a INT PRIMARY KEY)",
)


def in_store(s3: S3Server, make: LoadFactory, server: ThrowawayServer, **settings: object) -> FullLoad:
    place = s3.place(f"dump/{uuid.uuid4().hex}")
    return make(server, server, *TABLES, storage=place, **settings)


@pytest.mark.parametrize(
    ("consistency", "dump_format"),
    [
        ("none", "parquet"),
        ("flush", "sql"),
        pytest.param("none", "sql", marks=pytest.mark.chaos),
        pytest.param("flush", "parquet", marks=pytest.mark.chaos),
    ],
)
@pytest.mark.ci_sample(1)
def test_a_load_through_a_store_is_identical(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory, consistency: str, dump_format: str
) -> None:
    mode = "all" if consistency == "none" else "full"
    load = in_store(s3, full_load, mariadb, dump_format=dump_format, consistency=consistency, mode=mode, rows=1000)
    storage = load.storage
    assert isinstance(storage, S3Storage)
    plan = load.dump()
    listed = read_manifest(storage)
    names = storage.names()
    assert {PLAN_FILE, MANIFEST_FILE, METADATA_FILE} <= set(names)
    assert {file.name for file in listed.files} | {PLAN_FILE, MANIFEST_FILE} == set(names)
    assert [file.name for file in listed.files if sha256_of(storage, file.name) != file.sha256] == []
    assert sum(file.rows for file in listed.files) == 7000
    assert [path for path in load.directory.rglob("*") if path.suffix in (".parquet", ".sql")] == []
    assert storage._uploads() == []
    load.load()
    assert load.report().identical
    assert load_plan(storage) == plan, "clean-dump-file: false"
    if consistency == "none":
        load.upstream.execute(f"UPDATE `{load.schema}`.keyed SET t = 'later' WHERE id = 7")
        follow(load)


def test_a_loaded_dump_leaves_the_store(s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = in_store(s3, full_load, mariadb, clean_dump_file=True)
    load.dump()
    load.storage.store({"mine.txt": b""})
    load.load()
    assert load.storage.names() == ["mine.txt"]
    assert not load.directory.exists()


def test_a_load_reads_a_dump_that_another_task_has_put_there(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = in_store(s3, full_load, mariadb, dump_format="sql", consistency="flush", mode="dump")
    load.dump()
    load.storage.remove([PLAN_FILE, MANIFEST_FILE])  # what dumpling would not have written either
    config = load.subtask().model_copy(update={"mode": "load"})
    LoadUnit(config, load.storage, load.spark).run(threading.Event())
    assert load.report().identical


def test_a_damaged_object_is_named_with_its_address(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = in_store(s3, full_load, mariadb)
    plan = load.dump()
    name = plan.tables[0].file_name(0)
    load.storage.remove([name])
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "dump-file-damaged"
    assert f"{load.storage}/{name}" in caught.value.message


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("unit", "point"),
    [
        ("Dump", "dumper.after_p0"),
        ("Dump", "dumper.chunk_recorded"),
        ("Dump", "dumper.before_p1"),
        ("Dump", "dumper.finished"),
        ("Load", "loader.finished"),
    ],
)
def test_a_killed_driver_goes_on_from_the_store(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path, unit: str, point: str
) -> None:
    load = in_store(s3, full_load, mariadb, rows=500, clean_dump_file=True)
    if unit == "Load":
        load.dump()
    process = load.start(unit, f"{point}=kill", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    _goes_on(load)


@pytest.mark.chaos
@pytest.mark.parametrize(
    ("unit", "point"),
    [("Dump", "dumper.chunk_written"), ("Load", "loader.chunk_inserted"), ("Load", "loader.chunk_committed")],
)
def test_a_driver_killed_while_a_worker_is_at_work_goes_on_from_the_store(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path, unit: str, point: str
) -> None:
    load = in_store(s3, full_load, mariadb, rows=500, clean_dump_file=True)
    if unit == "Load":
        load.dump()
    released = tmp_path / "released"
    process = load.start(unit, f"{point}=hang:{released}", tmp_path / "log")
    wait_for(tmp_path / "log", process)
    process.kill()
    process.wait()
    released.touch()
    _goes_on(load)


@pytest.mark.chaos
def test_a_driver_killed_in_the_middle_of_an_object_leaves_no_parts(
    s3: S3Server, mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = in_store(s3, full_load, mariadb, dump_format="sql", clean_dump_file=True)
    load.upstream.execute(
        f"USE `{load.schema}`",
        "CREATE TABLE large (a INT, t TEXT)",
        "INSERT INTO large SELECT seq, REPEAT(MD5(seq), 8) FROM seq_1_to_300000",
    )
    storage = load.storage
    assert isinstance(storage, S3Storage)
    process = load.start("Dump", "", tmp_path / "log")
    while not storage._uploads():
        assert process.poll() is None, (tmp_path / "log.out").read_text()
        time.sleep(0.01)
    process.kill()
    process.wait()
    _goes_on(load)


def _goes_on(load: FullLoad) -> None:
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)
    assert isinstance(load.storage, S3Storage)
    assert (load.storage.names(), load.storage._uploads()) == ([], [])
