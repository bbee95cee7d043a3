"""The files of a comparison and of a flashback are read by the program that they are for, and say the same there."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.tools.diff.fix import FixFiles
from tests.live.flashback.scene import Scene
from tests.testbed.diffing import differences
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.sql_client import run_client

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

# Hexadecimal, so that no program on the way reads them.
TEXTS = {
    1: b"one\r\ntwo\r\n", 2: b"\r", 3: b"a\0b\x1ac", 4: b"\\r\\\r\\'", 5: b"it's \"x\" `y`;\n\\g\nDELIMITER //\n",
    6: "ü\r\n日本".encode(), 7: b"\n\r\n-- no comment\r\n/* none */ # none",
}  # fmt: skip
ROWS = ", ".join(f"({n}, x'{text.hex()}', x'{text.hex()}', 'y')" for n, text in TEXTS.items())


def test_files_are_read_by_the_client_as_they_were_meant(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, tmp_path: Path
) -> None:
    scene = Scene(upstream, target, schema(upstream), tmp_path)
    there = TableName(scene.there, "t")
    with scene.following():
        upstream.execute(
            f"CREATE TABLE {scene.name}.t (id INT PRIMARY KEY, v TEXT CHARACTER SET utf8mb4, b BLOB, e ENUM('x', 'y'))",
            f"INSERT INTO {scene.name}.t VALUES {ROWS}",
            "SET sql_mode = ''",
            f"UPDATE IGNORE {scene.name}.t SET e = 'z' WHERE id < 3",
        )
    before, begin = scene.rows(), scene.place
    assert [row[0] for row in target.query(f"SELECT CAST(v AS BINARY) FROM {there.sql} ORDER BY id")] == [
        *TEXTS.values()
    ]
    with scene.following():
        upstream.execute(
            f"UPDATE {scene.name}.t SET v = 'other', e = 'x' WHERE id <> 3", f"DELETE FROM {scene.name}.t WHERE id > 5"
        )
    changed = scene.rows()
    assert changed != before
    run_client(target, scene.take_back(begin)[1])
    assert scene.rows() == before

    # Now the target has what the source had before, and the other way round.
    upstream.execute(
        f"DELETE FROM {scene.name}.t", f"INSERT INTO {scene.name}.t VALUES {ROWS}",
        "SET sql_mode = ''", f"UPDATE IGNORE {scene.name}.t SET e = 'z' WHERE id < 3",
    )  # fmt: skip
    target.execute(f"UPDATE {there.sql} SET v = 'other', e = 'x' WHERE id < 4", f"DELETE FROM {there.sql} WHERE id > 3")
    files = FixFiles(tmp_path / "fixes")
    with files.held():
        written = files.write(there, [each.fix for each in differences(scene.subtask)["t"]])
    run_client(target, Path(written).read_bytes())
    assert differences(scene.subtask) == {}
    assert scene.rows() == before
