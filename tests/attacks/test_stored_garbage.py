"""Garbage in the target's progress tables stops the task and does nothing else: each text is an error by name.

Each column of a task's tables has some of the texts in turn; `tests/live/progress/test_stored_rows.py` has all of them
in all columns, for each function that reads one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest

from dm.demo.private_server import PrivateServer
from dm.ident import Ident, TableName
from tests.live.cli.newcomer import Newcomer
from tests.live.progress.test_stored_rows import GARBAGE
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.chaos, pytest.mark.live, pytest.mark.timeout(900)]


@pytest.fixture
def newcomer(park: ServerPark, tmp_path: Path) -> Iterator[Newcomer]:
    newcomer = Newcomer(park.shared("mysql", "upstream-1"), park.shared("mysql", "target"), tmp_path)
    with newcomer.daemon:
        yield newcomer
        newcomer.close()


def texts(target: PrivateServer, meta: str) -> list[tuple[TableName, str, int]]:
    """The columns for texts of the task's tables, with how many characters each takes."""
    rows = target.query(
        "SELECT table_name, column_name, character_maximum_length FROM information_schema.columns WHERE"
        " table_schema = %s AND (data_type LIKE '%%char' OR data_type LIKE '%%text')"
        " AND column_name NOT IN ('id', 'source', 'cp_schema', 'cp_table')",
        (meta,),
    )
    return [(TableName(meta, str(table)), str(column), int(str(size))) for table, column, size in rows]


def test_a_task_whose_progress_is_garbage_rests_and_is_well_again_with_what_was_there(newcomer: Newcomer) -> None:
    daemon, target = newcomer.daemon, newcomer.target
    newcomer.file("source.yaml", newcomer.source_text("here", newcomer.good_source_user()))
    newcomer.file("task.yaml", newcomer.task_text("orders", "here", newcomer.good_target_user()))
    daemon.must("operate-source", "create", "source.yaml")
    daemon.must("start-task", "task.yaml")
    daemon.wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "follows")
    daemon.must("stop-task", "orders")
    written, garbage_in_turn = 0, itertools.cycle(GARBAGE)
    for table, column, size in texts(target, newcomer.meta):
        kept = f"{table.sql[:-1]}_kept`"
        target.execute(f"CREATE TABLE {kept} LIKE {table.sql}", f"INSERT INTO {kept} SELECT * FROM {table.sql}")
        (count,) = target.query(f"SELECT COUNT(*) FROM {table.sql}")[0]
        for garbage in itertools.islice(garbage_in_turn, 1 if count else 0):
            target.query(f"UPDATE {table.sql} SET {Ident(column).sql} = %s LIMIT 1", (garbage[:size],))
            written += 1
            answers = [daemon.said("check-task", "task.yaml"), daemon.said("start-task", "task.yaml")]
            known = daemon.said("query-status", "orders")
            if "46018" not in known.out + known.err:  # `start-task` may tell of an error of one that it has started
                daemon.wait(
                    "orders",
                    lambda status: status["here"]["stage"] == "Paused" or status["here"]["sync"].get("synced") is True,
                    "takes it or rests",
                )
                answers.append(daemon.said("query-status", "orders"))
                daemon.must("stop-task", "orders")
            said = "".join(each.out + each.err for each in answers)
            assert "internal error" not in said, (table, column, garbage[:40], said)
            assert "Traceback" not in said, (table, column, garbage[:40], said)
            target.execute(f"DELETE FROM {table.sql}", f"INSERT INTO {table.sql} SELECT * FROM {kept}")
        target.execute(f"DROP TABLE {kept}")
    assert written >= len(GARBAGE), "each text was tried"
    newcomer.upstream.execute(f"INSERT INTO {newcomer.schema}.orders VALUES (3, 'three')")
    daemon.must("start-task", "task.yaml")
    daemon.wait("orders", lambda status: status["here"].get("sync", {}).get("synced") is True, "goes on")
    rows = f"SELECT * FROM {newcomer.schema}.orders WHERE id = 3"
    assert target.query(rows) == newcomer.upstream.query(rows)
