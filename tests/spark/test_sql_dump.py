"""SQL dump files: exact for our own load and for other tools, and files of other tools for our load."""

from __future__ import annotations

import gzip
import hashlib
import json
import shutil
import signal
import subprocess
import threading
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.dumpfiles.destination import Destination
from dm.dumpfiles.literals import read_trailer
from dm.errors import DMError
from dm.ident import TableName
from dm.loader.foreign_dump import read_foreign_dump
from dm.loader.sql_loader import FileLoader, FileTask
from dm.mysql.dialect import Flavor
from dm.mysql.schema.table import Column
from dm.mysql.sql.context import SourceContext
from dm.progress.load_parts import begin_run, loaded_parts
from dm.progress.tables import SubtaskKey
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad, rows
from tests.spark.test_fidelity import BOTH, MARIADB_ONLY, MYSQL_ONLY, TWINS, TYPED_DOCUMENTS

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.ci_flavor("mariadb")]

KEYED = ("CREATE TABLE keyed (id INT PRIMARY KEY, v INT)", "INSERT INTO keyed VALUES (1, 1), (2, 2), (3, 3), (4, 4)")
KEYLESS = ("CREATE TABLE keyless (v INT)", "INSERT INTO keyless VALUES (1), (1)")


def test_every_type_arrives_unchanged_in_sql_files(
    flavor: Flavor, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    only = MYSQL_ONLY if flavor == "mysql" else MARIADB_ONLY
    load = full_load(upstream, target, *BOTH, *TWINS, *only, rows=2, dump_format="sql")
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.ci_flavor("mysql")
def test_documents_whose_text_says_too_little_are_refused_with_their_row(
    mysql: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mysql, mysql, *TYPED_DOCUMENTS, dump_format="sql")
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-sql-inexact"
    assert f"JSON column j of {load.schema}.typed" in caught.value.message
    assert "id=1," in caught.value.message
    load.settings["json_types"] = "text"
    load.dump()
    load.load()
    copied = rows(mysql, f"SELECT JSON_TYPE(j->'$.d') FROM `{load.target_schema}`.typed WHERE id = 1")
    assert copied == [("DOUBLE",)]


def test_files_and_manifest_are_what_dumpling_names_and_sha256_says(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=2, dump_format="sql")
    plan = load.dump()
    names = {path.name for path in load.directory.iterdir()}
    data = {f"{load.schema}.keyed.{chunk:09d}.sql" for chunk in range(3)} | {f"{load.schema}.keyless.000000000.sql"}
    schemas = {f"{load.schema}.{table}-schema.sql" for table in ("keyed", "keyless")}
    assert names == data | schemas | {f"{load.schema}-schema-create.sql", "metadata", "dump.json", "manifest.json"}
    manifest = json.loads((load.directory / "manifest.json").read_text())
    assert manifest["dump"] == plan.dump_id
    assert {file["name"] for file in manifest["files"]} == names - {"dump.json", "manifest.json"}
    for file in manifest["files"]:
        content = (load.directory / file["name"]).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert sum(file.get("rows", 0) for file in manifest["files"]) == 6


def test_the_mysql_client_takes_the_files(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *BOTH, rows=2, dump_format="sql")
    load.dump()
    mariadb.execute(f"CREATE DATABASE `{load.target_schema}`")
    client = shutil.which("mariadb")
    assert client is not None
    schemas = sorted(load.directory.glob("*-schema.sql"))
    chunks = [path for path in sorted(load.directory.glob("*.sql")) if "-schema" not in path.name]
    for path in (*schemas, *chunks):
        with path.open("rb") as file:
            subprocess.run(
                [client, "--no-defaults", f"-h{mariadb.host}", f"-P{mariadb.port}", f"-u{mariadb.user}",
                 f"-p{mariadb.password}", load.target_schema],
                stdin=file, check=True,
            )  # fmt: skip
    report = load.report(structures=False)
    assert report.identical, str(report)


def test_a_damaged_sql_file_is_named_before_a_row_of_it_is_loaded(
    mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, dump_format="sql")
    plan = load.dump()
    path = load.directory / plan.tables[0].file_name(0)
    whole = path.read_bytes()
    with path.open("rb") as file:
        assert read_trailer(file, path.name).body < len(whole)
    for damaged in (whole[:-20], whole.replace(b"('1','1')", b"('1','7')"), whole + b"x"):
        path.write_bytes(damaged)
        with pytest.raises(DMError) as caught:
            load.load()
        assert caught.value.name == "dump-file-damaged"
        assert path.name in caught.value.message
        assert rows(mariadb, f"SELECT COUNT(*) FROM `{load.target_schema}`.keyed") in ([(0,)], [])
    path.write_bytes(whole)
    load.load()
    assert load.report().identical


@pytest.mark.chaos
@pytest.mark.timeout(900)  # two more JVMs start
def test_a_dump_killed_and_a_load_killed_go_on(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, rows=1, dump_format="sql")
    process = load.start("Dump", "dumper.chunk_recorded=kill@1", tmp_path / "log")
    assert process.wait() == -signal.SIGKILL
    kept = {path: path.stat().st_mtime_ns for path in load.directory.glob("*.[0-9]*.sql")}
    assert kept
    load.dump()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    process = load.start("Load", "loader.chunk_committed=kill@1", tmp_path / "log")
    process.wait()
    load.load()
    report = load.report()
    assert report.identical, str(report)


def as_mydumper(load: FullLoad, directory: Path) -> None:
    """Make files as mydumper does of what the source has: no columns named, one file packed."""
    directory.mkdir(parents=True)
    head = "/*!40101 SET NAMES binary*/;\n/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40103 SET TIME_ZONE='+00:00' */;\n"
    name = load.schema
    created = f"CREATE DATABASE /*!32312 IF NOT EXISTS*/ `{name}` /*!40100 DEFAULT CHARACTER SET latin1 */;\n"
    (directory / f"{name}-schema-create.sql").write_text(created)
    for table, chunks in {"keyed": ["(1,1),\n(2,2)", "(3,3);;(4,4)"], "keyless": ["(1),\n(1)"]}.items():
        structure = rows(load.upstream, f"SHOW CREATE TABLE `{name}`.{table}")[0][1]
        (directory / f"{name}.{table}-schema.sql").write_text(f"{head}\n{structure};\n")
        for number, values in enumerate(chunks):
            body = "".join(f"INSERT INTO `{table}` VALUES\n{each};\n" for each in values.split(";;"))
            suffix = f".{number:05d}" if len(chunks) > 1 else ""
            path = directory / f"{name}.{table}{suffix}.sql"
            if number == 1:
                path.with_name(f"{path.name}.gz").write_bytes(gzip.compress((head + body).encode()))
            else:
                path.write_text(head + body)
    (directory / f"{name}.seen-schema.sql").write_text(f"{head}CREATE TABLE `seen` (\n`a` int\n)ENGINE=MyISAM;\n")
    (directory / f"{name}.seen-schema-view.sql").write_text(f"{head}DROP TABLE IF EXISTS `seen`;\n")
    place = "SHOW MASTER STATUS:\n\tLog: binlog.000001\n\tPos: 99\n\tGTID:0-1-7\n\n"
    (directory / "metadata").write_text(f"Started dump at: 2026-01-01 00:00:00\n{place}Finished dump at: x\n")


def test_a_dump_of_mydumper_is_loaded_once(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, mode="load", clean_dump_file=True)
    as_mydumper(load, load.directory)
    broken = load.directory / f"{load.schema}.keyless.sql"
    whole = broken.read_text()
    broken.write_text(f"{whole}DELETE FROM keyless;\n")
    with pytest.raises(DMError) as caught:
        load.load()
    assert (caught.value.name, caught.value.details["offset"]) == ("dump-file-not-understood", len(whole) - 1)
    broken.write_text(whole)
    status = load.load().status()
    assert (status["progress"], status["metaBinlog"]) == ("100.00 %", "(binlog.000001, 99)")
    assert status["leftOut"] == [f"{load.schema}.seen-schema-view.sql", f"{load.schema}.seen-schema.sql"]
    report = load.report()
    assert report.identical, str(report)
    assert (load.directory / "metadata").exists(), "files of others are not cleaned away"


def test_a_file_that_was_changed_before_what_is_loaded_is_not_gone_on_with(
    mariadb: ThrowawayServer, full_load: LoadFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, mode="load")
    as_mydumper(load, load.directory)
    path = load.directory / f"{load.schema}.keyless.sql"
    path.write_text("".join(f"INSERT INTO keyless VALUES ({number});\n" for number in (10, 11, 12)) + "DELETE 1;\n")
    plan = read_foreign_dump(load.storage, "task", "source", SourceContext("mariadb", 101100, ""), lambda _: True)
    name = plan.plan.tables[-1].name
    assert name.table == "keyless"
    mariadb.execute(f"CREATE DATABASE `{load.target_schema}`", f"CREATE TABLE `{load.target_schema}`.keyless (v INT)")
    monkeypatch.setattr("dm.loader.sql_loader._PART_BYTES", 1)  # a part is a statement
    key = SubtaskKey(load.meta_schema, load.subtask().task, load.source_id)

    def go_on() -> None:
        with TargetConnection(load.subtask().target) as connection:
            run = begin_run(connection, key, plan.plan.dump_id, threading.Event())
            done = {part.part: size for part, size in loaded_parts(connection, run).items()}
        columns = (Column("v", "int"),)
        destination = Destination(TableName(load.target_schema, "keyless"), columns, unique=False)
        task = FileTask(name, 0, 0, path.name, 0, destination, columns, rows=0, ours=False, done=done)
        FileLoader(load.subtask().target, load.storage, run)((task,))

    with pytest.raises(DMError, match="DELETE"):
        go_on()
    path.write_text("".join(f"INSERT INTO keyless VALUES ({number});\n" for number in (9, 10, 11, 12)))
    with pytest.raises(DMError) as caught:
        go_on()
    assert caught.value.name == "dump-file-damaged"
    path.write_text("".join(f"INSERT INTO keyless VALUES ({number});\n" for number in (10, 11, 12, 13)))
    go_on()
    found = rows(mariadb, f"SELECT v FROM `{load.target_schema}`.keyless ORDER BY v")
    assert found == [(10,), (11,), (12,), (13,)]


def unpack_beside(directory: Path) -> None:
    (packed,) = directory.glob("*.gz")
    packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))


@pytest.mark.parametrize(
    "header",
    [
        "/*!40014 SET FOREIGN_KEY_CHECKS=0*/;\n/*!40101 SET NAMES binary*/;\n",
        "/*!40101 SET NAMES binary*/;\n",  # of older ones
    ],
)
def test_texts_of_dumpling_are_utf8_whatever_its_header_says(
    header: str, upstream: ThrowawayServer, target: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(
        upstream,
        target,
        "SET NAMES utf8mb4",
        "CREATE TABLE letters (id INT PRIMARY KEY, w VARCHAR(9) CHARACTER SET latin1, g TEXT CHARACTER SET gbk,"
        " e ENUM('ä', 'b') CHARACTER SET latin1, u TEXT CHARACTER SET utf8mb4, j JSON, b BLOB, bits BIT(9))",
        "INSERT INTO letters VALUES (1, 'äß', '表', 'ä', '表😀', '{\"k\": \"ä\"}', x'00e4ff27', 257)",
        mode="load",
    )
    directory, stem = load.directory, f"{load.schema}.letters"
    directory.mkdir()
    created = f"CREATE DATABASE `{load.schema}` /*!40100 DEFAULT CHARACTER SET utf8mb4 */;\n"
    structure = rows(upstream, f"SHOW CREATE TABLE `{load.schema}`.letters")[0][1]
    values = """(1,'äß','表','ä','表😀','{\\"k\\": \\"ä\\"}',x'00e4ff27',x'0101')"""
    (directory / f"{load.schema}-schema-create.sql").write_text(header + created)
    (directory / f"{stem}-schema.sql").write_text(f"{header}{structure};\n")
    (directory / f"{stem}.000000000.sql").write_text(f"{header}INSERT INTO `letters` VALUES\n{values};\n")
    place = "SHOW MASTER STATUS:\n\tLog: binlog.000001\n\tPos: 99\n\tGTID:\n\n"
    (directory / "metadata").write_text(f"Started dump at: 2026-01-01 00:00:00\n{place}Finished dump at: x\n")
    load.load()
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda directory: (directory / "metadata").unlink(), "no file `metadata`"),
        (lambda directory: (directory / "metadata").write_text("Started dump at: x\n"), "does not say"),
        (lambda directory: (directory / "x.csv").write_text("1"), "x.csv is not SQL"),
        (lambda directory: (directory / "other.t.sql").write_text(""), "other.t.sql belongs to no"),
        (unpack_beside, "is there unpacked too"),
    ],
)
def test_a_directory_that_is_no_finished_dump_is_refused(
    change: object, why: str, mariadb: ThrowawayServer, full_load: LoadFactory
) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS, mode="load")
    as_mydumper(load, load.directory)
    assert callable(change)
    change(load.directory)
    with pytest.raises(DMError) as caught:
        load.load()
    assert caught.value.name == "dump-not-understood"
    assert why in caught.value.message


def test_a_dump_never_wipes_what_another_program_has_written(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED, *KEYLESS)
    as_mydumper(load, load.directory)
    before = {path: path.read_bytes() for path in load.directory.iterdir()}
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-directory-foreign"
    assert {path: path.read_bytes() for path in load.directory.iterdir()} == before


def test_a_directory_that_can_not_be_used_is_named(mariadb: ThrowawayServer, full_load: LoadFactory) -> None:
    load = full_load(mariadb, mariadb, *KEYED)
    load.directory.write_text("a file")
    with pytest.raises(DMError) as caught:
        load.dump()
    assert caught.value.name == "dump-directory-unusable"
