"""The plan and the chunk files survive a crash, and a late worker can't change them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dm.dumpfiles.dump_files import (
    FOOTER_KEY,
    PLAN_FILE,
    ChunkFooter,
    DumpedTable,
    DumpPlan,
    finished_chunk,
    foreign_file,
    load_plan,
    plan_from_text,
    plan_to_text,
    read_footer,
    remove_files,
    save_plan,
)
from dm.dumpfiles.storage import LocalStorage, publish
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.position import Position

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"

names = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=64)
tables = st.builds(TableName, names, names)
positions = st.builds(
    Position,
    st.just(UUID),
    st.just("binlog.000007"),
    st.integers(4, 1 << 40),
    st.sampled_from(
        [GtidSet.parse(f"{UUID}:1-9", "mysql"), GtidSet.empty("mysql"), GtidSet.parse("0-1-17", "mariadb")]
    ),
)
dumped = st.builds(
    DumpedTable,
    tables,
    st.text(max_size=50),
    st.integers(0, 9),
    st.booleans(),
    st.none() | positions,
    st.none() | st.lists(st.tuples(names, names), max_size=3).map(tuple),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 20),
)
plans = st.builds(
    DumpPlan,
    st.just("5d7c"),
    names,
    names,
    st.sampled_from(["mysql", "mariadb"]),
    st.integers(50000, 200000),
    st.just(UUID),
    positions,
    st.none() | positions,
    st.lists(dumped, max_size=3).map(tuple),
    st.dictionaries(tables, positions, max_size=2),
    st.dictionaries(names, st.tuples(names, names), max_size=2),
)


@given(plans)
def test_a_plan_comes_back_from_its_text(plan: DumpPlan) -> None:
    assert plan_from_text(plan_to_text(plan), PLAN_FILE) == plan


@given(
    st.builds(
        ChunkFooter, names, tables, st.integers(0, 9), st.integers(0, 999), st.integers(0), st.integers(0),
        st.none() | positions, st.none() | st.text(max_size=20),
    )
)  # fmt: skip
def test_a_footer_comes_back_from_its_text(footer: ChunkFooter) -> None:
    assert ChunkFooter.from_text(footer.to_text()) == footer


@given(tables, tables, st.integers(0, 99), st.integers(0, 99))
def test_file_names_are_different_and_plain(one: TableName, other: TableName, chunk: int, second: int) -> None:
    first = DumpedTable(one, "").file_name(chunk)
    assert "/" not in first
    assert len(first.encode()) < 255
    if (one, chunk) != (other, second):
        assert first != DumpedTable(other, "").file_name(second)


def plan_with(table: DumpedTable) -> DumpPlan:
    return DumpPlan("d1", "t", "s", "mysql", 90704, UUID, Position(UUID, "binlog.000001", 4), tables=(table,))


def chunk_file(path: Path, footer: ChunkFooter, rows: int) -> None:
    table = pyarrow.table({"a": pyarrow.array([b"x"] * rows, pyarrow.binary())})
    with parquet.ParquetWriter(path, table.schema) as writer:
        writer.write_table(table)
        writer.add_key_value_metadata({FOOTER_KEY: footer.to_text().encode()})


def test_only_files_of_this_dump_and_generation_count(tmp_path: Path) -> None:
    table = DumpedTable(TableName("a", "b"), "", generation=1, bounds=())
    path = tmp_path / table.file_name(0)
    plan = plan_with(table)
    assert finished_chunk(LocalStorage(tmp_path), plan, table, 0) is None
    chunk_file(path, ChunkFooter("another", table.name, 1, 0, 2, 9), 2)
    assert finished_chunk(LocalStorage(tmp_path), plan, table, 0) is None
    chunk_file(path, ChunkFooter("d1", table.name, 0, 0, 2, 9), 2)
    assert finished_chunk(LocalStorage(tmp_path), plan, table, 0) is None
    good = ChunkFooter("d1", table.name, 1, 0, 2, 9)
    chunk_file(path, good, 2)
    assert finished_chunk(LocalStorage(tmp_path), plan, table, 0) == good


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.b.000.000000000.parquet"
    chunk_file(path, ChunkFooter("d1", TableName("a", "b"), 0, 0, 5, 9), 2)
    with pytest.raises(DMError, match="is damaged"):
        read_footer(LocalStorage(tmp_path), path.name)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(DMError, match="is damaged"):
        read_footer(LocalStorage(tmp_path), path.name)


def test_the_first_worker_wins_and_nothing_is_left_over(tmp_path: Path) -> None:
    final = tmp_path / "chunk"
    for content, won in (("first", True), ("second", False)):
        temporary = tmp_path / f".{content}.tmp"
        temporary.write_text(content)
        assert publish(temporary, final) is won
    assert final.read_text() == "first"
    assert list(tmp_path.iterdir()) == [final]


def test_no_plan_is_no_dump_and_half_a_plan_is_damage(tmp_path: Path) -> None:
    assert load_plan(LocalStorage(tmp_path)) is None
    plan = plan_with(DumpedTable(TableName("a", "b"), "CREATE TABLE `b` (`c` int)"))
    save_plan(LocalStorage(tmp_path), plan)
    assert load_plan(LocalStorage(tmp_path)) == plan
    (tmp_path / PLAN_FILE).write_text('{"format": 1')
    with pytest.raises(DMError, match="is damaged"):
        load_plan(LocalStorage(tmp_path))


def test_removing_a_dump_keeps_the_files_of_others(tmp_path: Path) -> None:
    directory = tmp_path / "dump"
    directory.mkdir()
    ours = (PLAN_FILE, "a.b.000.000000000.parquet", "a.b-schema.sql", "metadata", ".x.tmp")
    others = {
        "mine.txt",
        "mine.parquet",
        "part-00000.snappy.parquet",
        "a.b.000.1.parquet",
        "draft.tmp",
        "a.b.00001.sql",
    }
    for name in (*ours, *others):
        (directory / name).write_text("")
    remove_files(LocalStorage(directory))
    assert {path.name for path in directory.iterdir()} == others
    for name in others:
        (directory / name).unlink()
    remove_files(LocalStorage(directory))
    assert not directory.exists()
    remove_files(LocalStorage(directory))


@pytest.mark.parametrize("died_at", ["a.b-schema.sql", "metadata"])
def test_a_removal_cut_short_is_still_ours_and_goes_on(
    died_at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = (PLAN_FILE, "a.b.000000000.sql", "a.b-schema.sql", "a-schema-create.sql", "metadata", "manifest.json")
    for name in names:
        (tmp_path / name).write_text("")
    unlink = Path.unlink

    def die(path: Path, missing_ok: bool = False) -> None:
        if path.name == died_at:
            raise KeyboardInterrupt
        unlink(path, missing_ok=missing_ok)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", die)
        with pytest.raises(KeyboardInterrupt):
            remove_files(LocalStorage(tmp_path))
    assert load_plan(LocalStorage(tmp_path)) is None
    assert foreign_file(LocalStorage(tmp_path)) is None
    remove_files(LocalStorage(tmp_path))
    assert not tmp_path.exists()


@pytest.mark.parametrize("name", ["metadata", "metadata.partial", "a.b.sql", "a.b.00001.sql.gz", "a.b.000.parquet"])
def test_a_dump_without_our_plan_is_of_others_and_never_removed(name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text("")
    assert foreign_file(LocalStorage(tmp_path)) == name
    remove_files(LocalStorage(tmp_path))
    assert (tmp_path / name).exists()
    (tmp_path / PLAN_FILE).write_text("")
    assert foreign_file(LocalStorage(tmp_path)) is None


def test_what_the_file_system_refuses_is_said_in_our_words(tmp_path: Path) -> None:
    full = Path("/dev/full")  # takes a file and refuses every byte of it (full(4))
    with pytest.raises(DMError) as caught, LocalStorage(tmp_path).writing(), full.open("wb", buffering=0) as file:
        file.write(b"x")
    assert (caught.value.name, caught.value.retryable) == ("dump-disk-full", True)
    with pytest.raises(DMError) as caught, LocalStorage(tmp_path).writing():
        (tmp_path / "absent" / "file").write_text("")
    assert caught.value.name == "dump-directory-unusable"


def test_names_are_escaped_as_dumpling_does() -> None:
    table = DumpedTable(TableName("a.b", "c-schema%é/d"), "", form="sql")
    assert table.file_name(7) == "a%2Eb.c%2Dschema%25é%2Fd.000000007.sql"
    assert replace(table, generation=2).file_name(7) == "a%2Eb.c%2Dschema%25é%2Fd.2000000007.sql"
