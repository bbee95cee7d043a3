"""Dumps that mydumper itself has written arrive as they were."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.spark.full_load import FullLoad
from tests.spark.test_fidelity import (
    BYTES,
    COMPUTED,
    DOCUMENTS,
    FAMILY,
    KEYLESS,
    LENIENT,
    PARTITIONED,
    SHAPES,
    TEXTS,
    TIMES,
)

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(900)]

# Not among them: FLOAT, which mydumper writes with six digits, a DOUBLE's -0, which it writes as the integer, and names
# with backticks, which it can't dump.
NUMBERS = (
    "CREATE TABLE numbers (id BIGINT UNSIGNED PRIMARY KEY, t TINYINT UNSIGNED ZEROFILL, d DECIMAL(65,30), g DOUBLE,"
    " y YEAR, bits BIT(13))",
    "INSERT INTO numbers VALUES (18446744073709551615, 255, -0.076900000000000000000000000001, 2.2250738585072014e-308,"
    " 2155, b'1111111111111'), (0, NULL, NULL, NULL, NULL, NULL), (3, 0, 0, -1.5, 1901, b'0')",
)
# Nor an ENUM's error value, which it writes like an empty text: the load stops at it.
CHOICES = (
    "CREATE TABLE choices (id INT PRIMARY KEY, e ENUM('a','b''c','ü\\\\','0','2') CHARACTER SET utf8mb4,"
    " s SET('x','y'';','ü') CHARACTER SET latin1)",
    "INSERT INTO choices VALUES (1, 'b''c', 'x,ü'), (2, NULL, NULL), (3, 'ü\\\\', ''), (4, '0', 'x'), (5, '2', 'y'';')",
)
MANY = (
    "CREATE TABLE many (id INT PRIMARY KEY, v VARCHAR(40))",
    "INSERT INTO many VALUES " + ", ".join(f"({number}, 'row {number};\\n')" for number in range(2000)),
)
TABLES = (
    LENIENT, *NUMBERS, *TIMES, *TEXTS, *BYTES, *CHOICES, *DOCUMENTS, *SHAPES, *COMPUTED, *KEYLESS, *FAMILY,
    *PARTITIONED, *MANY, "CREATE VIEW seen AS SELECT id FROM many",
)  # fmt: skip


def dump(load: FullLoad, *options: str) -> None:
    """Run mydumper into the directory that the load reads."""
    server = load.upstream
    place = ["--host", server.host, "--port", str(server.port), "--user", server.user, "--password", server.password]
    what = ["--database", load.schema, "--outputdir", str(load.directory), "--threads", "2"]
    subprocess.run(["mydumper", *place, *what, *options], check=True)


def check(load: FullLoad) -> None:
    load.upstream.execute(f"DROP VIEW `{load.schema}`.seen")  # what the comparer takes for a table
    report = load.report()
    assert report.identical, str(report)


@pytest.mark.parametrize(
    "options",
    [(), ("--rows", "300", "--statement-size", "4000"), ("--compress", "--build-empty-files")],
    ids=["plain", "in chunks", "packed"],
)
def test_a_dump_of_mydumper_arrives_unchanged(
    options: tuple[str, ...],
    flavor: Flavor,
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    full_load: LoadFactory,
) -> None:
    load = full_load(upstream, target, *TABLES, mode="load")
    dump(load, *options)
    unit = load.load()
    assert any("seen" in str(name) for name in unit.status()["leftOut"])  # type: ignore[union-attr]
    check(load)


def test_a_load_that_is_killed_goes_on_after_what_is_committed(
    mariadb: ThrowawayServer, full_load: LoadFactory, tmp_path: Path
) -> None:
    load = full_load(mariadb, mariadb, *TABLES, mode="load")
    dump(load, "--rows", "500", "--statement-size", "4000")
    process = load.start("Load", "loader.chunk_committed=kill@3", tmp_path / "log")
    assert process.wait() != 0
    load.load()
    check(load)
