"""A server that was unpacked: where its scripts are, which older ones call otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.installation import VARIABLES, find


def unpacked(tree: Path, shared: str, scripts: list[str]) -> Path:
    (tree / shared).mkdir(parents=True)
    (tree / "VERSION").write_text("10.5.23\n")
    (tree / "LAYOUT").write_text("mysqld=usr/sbin/mariadbd\n")
    for script in scripts:
        (tree / shared / script).write_text("")
    return tree


@pytest.mark.parametrize(
    ("shared", "scripts"),
    [
        ("usr/share/mariadb", ["mariadb_system_tables.sql", "fill_help_tables.sql", "mariadb_sys_schema.sql"]),
        ("usr/share/mysql", ["mysql_system_tables.sql", "fill_help_tables.sql"]),
    ],
)
def test_scripts_are_found_under_both_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared: str, scripts: list[str]
) -> None:
    tree = unpacked(tmp_path / "tree", shared, scripts)
    monkeypatch.setenv(VARIABLES["mariadb"], str(tree))
    installation = find("mariadb")
    assert [path.name for path in installation.system_tables] == scripts
    assert f"--character-sets-dir={tree / shared / 'charsets'}" in installation.server_options


@pytest.mark.parametrize(
    ("version", "release"), [("10.2.11", (10, 2)), ("11.8.9+ds-4", (11, 8)), ("10.5.23-0+deb11u1", (10, 5))]
)
def test_a_release_is_the_first_two_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, release: tuple[int, int]
) -> None:
    tree = unpacked(tmp_path / "tree", "usr/share/mariadb", [])
    (tree / "VERSION").write_text(f"{version}\n")
    monkeypatch.setenv(VARIABLES["mariadb"], str(tree))
    assert find("mariadb").release == release


@pytest.mark.parametrize(
    ("version", "scripts"),
    [("5.6.24", ["mysql_system_tables.sql", "mysql_system_tables_data.sql"]), ("9.7.4-2", [])],
)
def test_a_mysql_before_5_7_needs_its_scripts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, scripts: list[str]
) -> None:
    tree = unpacked(tmp_path / "tree", "share", ["mysql_system_tables.sql", "mysql_system_tables_data.sql"])
    (tree / "VERSION").write_text(f"{version}\n")
    (tree / "LAYOUT").write_text("loader=/lib64/ld.so\nlibraries=lib\nmysqld=bin/mysqld\nbase=.\nshared=share\n")
    (tree / "bin").mkdir()
    (tree / "bin" / "mysqld").touch()
    monkeypatch.setenv(VARIABLES["mysql"], str(tree))
    installation = find("mysql")
    assert [path.name for path in installation.system_tables] == scripts
    # The loader may be the system's.
    program = str(tree / "bin" / "mysqld")
    assert installation.command("mysqld") == ["/lib64/ld.so", "--library-path", str(tree / "lib"), program]
