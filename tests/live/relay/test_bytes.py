"""The relay's files are the server's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dm.mysql.dialect import Flavor
from tests.live.relay.relaying import (
    binlogs,
    flush_logs,
    last_directory,
    relaying,
    source_of,
    wait_equal,
    wait_until,
)
from tests.live.relay.traffic import of_every_kind
from tests.testbed.fixtures import ServerFactory

pytestmark = pytest.mark.live


def test_files_equal_the_servers_byte_for_byte(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    if flavor == "mariadb":
        source = server(flavor, max_allowed_packet="64M", log_bin_compress="ON")
    else:
        source = server(flavor, max_allowed_packet="64M")
    source.execute("CREATE DATABASE x")
    with relaying(source_of(source), tmp_path) as unit:
        of_every_kind(source, "x")
        source.execute("INSERT INTO x.a (b) VALUES (REPEAT('more than one packet ', 1700000))")
        wait_equal(tmp_path, source)
        wait_until(lambda: unit.status()["relayCatchUpMaster"] is True, "the status to say so")
    assert len(binlogs(source)) >= 3


def test_files_with_and_without_checksums(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute(
        "CREATE DATABASE x",
        "CREATE TABLE x.a (id INT PRIMARY KEY)",
        "SET GLOBAL binlog_checksum = NONE",
        "INSERT INTO x.a VALUES (1)",
        "SET GLOBAL binlog_checksum = CRC32",
        "INSERT INTO x.a VALUES (2)",
        "SET GLOBAL binlog_checksum = NONE",
        "INSERT INTO x.a VALUES (3)",
    )
    with relaying(source_of(source), tmp_path):
        wait_equal(tmp_path, source)
        source.execute("INSERT INTO x.a VALUES (4)", "SET GLOBAL binlog_checksum = CRC32", "INSERT INTO x.a VALUES (5)")
        wait_equal(tmp_path, source)


def test_the_servers_own_program_reads_relay_files(server: ServerFactory, flavor: Flavor, tmp_path: Path) -> None:
    source = server(flavor)
    source.execute("CREATE DATABASE x")
    with relaying(source_of(source), tmp_path):
        of_every_kind(source, "x")
        flush_logs(source)
        wait_equal(tmp_path, source)
    program = source.installation.command("mysqlbinlog" if flavor == "mysql" else "mariadb-binlog")
    for name, _ in binlogs(source)[:-1]:
        printed = [
            subprocess.run(
                [*program, "--no-defaults", "--verify-binlog-checksum", str(path)], capture_output=True, check=True
            ).stdout
            for path in (last_directory(tmp_path) / name, Path(source.data) / name)
        ]
        assert len(printed[0]) > 200
        assert printed[0] == printed[1]
