"""What a newer dm has stored is refused by name, and nothing of it is changed; older formats are brought up to date.

The progress tables and the row of a cut-over are in tests/live/progress/test_stored_format.py, an older registry is in
tests/unit/worker/test_registry.py.
"""

from __future__ import annotations

import json
import re
import sqlite3
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from zlib import crc32

import pytest

from dm.dumpfiles.dump_files import PLAN_FILE, load_plan
from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import FLAVORS, Flavor
from dm.position import Position
from dm.sourcelog.relaylog.index import ANY_SIZE, FileIndex, read_index, read_seal, write_index
from dm.sourcelog.stream.prepared_list import HeldXa, PreparedDirectory, TransactionEnd
from dm.sourcelog.stream.spool_file import HEADER, MAGIC
from dm.stored_format import DUMP, FORMATS, PREPARED, PROGRESS, REGISTRY, RELAY_INDEX, StoredFormat
from dm.worker.registry import Registry
from tests.testbed.stored_states import SCENES, archive_of
from tests.unit.docs.document import ROOT

L = Position("3e11fa47-71ca-11e1-9e33-c80aa9429562", "binlog.000001", 400)


def _registry(directory: Path) -> tuple[Path, Callable[[], object]]:
    path = directory / "registry.sqlite"
    Registry(path).close()
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA user_version = {REGISTRY.number + 1}")
    return path, lambda: Registry(path)


def _index(directory: Path) -> tuple[Path, Callable[[], object]]:
    path = directory / "binlog.000001.idx"
    write_index(path, FileIndex(complete=500))
    path.write_bytes(path.read_bytes().replace(b'"format": %d' % RELAY_INDEX.number, b'"format": 3'))
    return path, lambda: read_index(path, ANY_SIZE)


def _seal(directory: Path) -> tuple[Path, Callable[[], object]]:
    path, _ = _index(directory)
    return path, lambda: read_seal(path)


def _plan(directory: Path) -> tuple[Path, Callable[[], object]]:
    path = directory / PLAN_FILE
    path.write_text(json.dumps({"format": DUMP.number + 1, "of": "another form"}))
    return path, lambda: load_plan(LocalStorage(directory))


def _prepared(directory: Path) -> tuple[Path, Callable[[], object]]:
    folder = directory / "xa"
    first = PreparedDirectory(folder)
    first.begin(1, None, "")
    first.write(L, [])
    path = folder / "1" / "list"
    payload = json.dumps({"format": PREPARED.number + 1}).encode()
    path.write_bytes(HEADER.pack(MAGIC, len(payload), crc32(payload)) + payload)
    return path, lambda: PreparedDirectory(folder).begin(2, L, "")


@pytest.mark.parametrize(
    ("known", "store"),
    [(REGISTRY, _registry), (RELAY_INDEX, _index), (RELAY_INDEX, _seal), (DUMP, _plan), (PREPARED, _prepared)],
    ids=["registry", "index", "seal", "plan", "prepared"],
)
def test_a_newer_format_is_refused_by_name(
    known: StoredFormat, store: Callable[[Path], tuple[Path, Callable[[], object]]], tmp_path: Path
) -> None:
    path, read = store(tmp_path)
    before = path.read_bytes()
    with pytest.raises(DMError) as refused:
        read()
    assert refused.value.name == "stored-format-newer"
    expected = f"{known.what} in {path} has format {known.number + 1}, and this dm knows formats up to {known.number}"
    assert expected in str(refused.value)
    assert known.way_out in refused.value.report()["Workaround"]
    assert path.read_bytes() == before


def test_a_list_of_prepared_transactions_of_before_there_were_numbers_is_read(tmp_path: Path) -> None:
    first = PreparedDirectory(tmp_path)
    first.begin(1, None, "")
    held = HeldXa(1, "X'41',X'',1", TransactionEnd.of(L, None), 7, left_out=frozenset({TableName("a", "b")}))
    first.path(held).write_bytes(b"rows")
    first.write(L, [held])
    path = tmp_path / "1" / "list"
    stored = json.loads(path.read_bytes()[HEADER.size :])
    assert stored.pop("format") == PREPARED.number
    payload = json.dumps(stored).encode()
    path.write_bytes(HEADER.pack(MAGIC, len(payload), crc32(payload)) + payload)
    assert [each.xid for each in PreparedDirectory(tmp_path).begin(2, L, "")] == [held.xid]


def test_the_page_of_upgrades_lists_each_format_with_its_number() -> None:
    page = (ROOT / "docs" / "upgrading.md").read_text(encoding="utf-8")
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    told = {row[0]: row[1] for row in rows if len(row) == 4 and row[1].isdecimal()}
    assert told == {each.what: str(each.number) for each in FORMATS}


@pytest.mark.parametrize("flavor", FLAVORS)
@pytest.mark.parametrize("number", range(PROGRESS.number))
def test_recorded_states_were_stored_by_a_dm_with_their_number(flavor: Flavor, number: int, tmp_path: Path) -> None:
    """A daemon or a host of another dm beside it would have left tables and numbers of its own."""
    for scene in SCENES if number == 0 else ("follow",):
        with tarfile.open(archive_of(flavor, scene, number)) as archive:
            archive.extractall(tmp_path / scene, filter="data")
        facts = json.loads((tmp_path / scene / "facts.json").read_text(encoding="utf-8"))
        stored = re.findall(
            r"INSERT INTO `dm_meta`.`shop_stored_format` VALUES \((\d+)", "\n".join(facts["target-rows"])
        )
        with closing(sqlite3.connect(tmp_path / scene / "home" / "registry.sqlite")) as database:
            ((registry,),) = database.execute("PRAGMA user_version").fetchall()
        assert ([int(each) for each in stored], registry) == (([number], 1) if number else ([], 0)), scene
