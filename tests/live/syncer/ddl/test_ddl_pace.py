"""What a DDL statement costs at the target: the statements that it is sent, counted and not timed."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest

from dm.clock import SystemClock
from dm.config.subtask import SubtaskConfig
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.syncer.unit import SyncUnit
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.general_log import logged
from tests.testbed.sync import running_sync, subtask_for, wait_until
from tests.testbed.unit_thread import UnitThread

pytestmark = pytest.mark.live

TABLES: Final = 6
# Of the schema, asked for each time that a statement may take them: a person may change them.
DEFAULTS: Final[dict[Flavor, str]] = {"mysql": "SHOW CREATE", "mariadb": "SELECT default_character_set_name,"}
STORED: Final = ("START TRANSACTION", "UPDATE", "INSERT", "REPLACE", "COMMIT")
"""The end of the statement before and the intent of this one."""


class _Unhurried(SystemClock):
    """Never wakes the progress writer, which would store the end of a statement that lasts a second."""

    def wait(self, signal: threading.Event, seconds: float) -> bool:
        if threading.current_thread().name == "progress":
            return signal.wait()
        return super().wait(signal, seconds)


def _follow(subtask: SubtaskConfig, statements: int, directory: Path) -> None:
    """Run a unit until so many statements were executed; whoever asks it for its status stores nothing."""
    unit = SyncUnit(subtask, relay_directory=None, work_directory=directory, clock=_Unhurried())
    with UnitThread(unit) as running:
        done = {"ddlExecuted": statements}
        wait_until(lambda: running.error is not None or done.items() <= unit.status().items(), "all executed", 120)


def _between(found: Sequence[str], first: str, last: str) -> list[str]:
    """The first words of what was sent after a statement, up to and with another one."""
    begin, end = (next(n for n, text in enumerate(found) if text.startswith(start)) for start in (first, last))
    words = [re.split(r"[ (]", text.rstrip(";"), maxsplit=2) for text in found[begin + 1 : end + 1]]
    names = [" ".join(each[:2]) if each[0] in ("START", "SELECT", "SHOW") else each[0] for each in words]
    # Once per second of the source.
    return [name for name, text in zip(names, found[begin + 1 :], strict=False) if "SESSION timestamp" not in text]


@pytest.mark.ci_flavor("mysql")
def test_statements_in_a_row_cost_one_commit_each(
    upstream: ThrowawayServer, server: ServerFactory, flavor: Flavor, schema: SchemaFactory, tmp_path: Path
) -> None:
    target = server(flavor)
    name = schema(upstream, target)
    subtask = subtask_for(upstream, target, name, task=name)
    with running_sync(subtask, work_directory=tmp_path) as sync:
        sync.wait_synced()
    statements = [
        statement
        for number in range(TABLES)
        for statement in (
            f"CREATE TABLE {name}.t{number} (id INT PRIMARY KEY, v VARCHAR(20))",
            f"ALTER TABLE {name}.t{number} ADD COLUMN w INT",
            f"ALTER TABLE {name}.t{number} ADD INDEX (w)",
        )
    ]
    upstream.execute(*statements)
    with logged(target) as sent:
        _follow(subtask, len(statements), tmp_path)
    found = [text for each in sent for text in re.split(r";(?=(?:UPDATE|INSERT|REPLACE) )", each.text)]
    before, create, alter, index = (
        f"{verb} `{name}`.`t{number}` {rest}".rstrip()
        for verb, number, rest in (
            ("ALTER TABLE", 2, "ADD INDEX"),
            ("CREATE TABLE", 3, ""),
            ("ALTER TABLE", 3, "ADD COLUMN"),
            ("ALTER TABLE", 3, "ADD INDEX"),
        )
    )
    assert _between(found, before, create) == [
        DEFAULTS[flavor],
        "SELECT RELEASE_LOCK",
        DEFAULTS[flavor],
        "SHOW CREATE",
        *STORED,
        "CREATE",
    ]
    assert _between(found, create, alter) == ["SHOW CREATE", *STORED, "ALTER"]
    assert _between(found, alter, index) == ["SHOW CREATE", *STORED, "ALTER"]
    assert compare(pair_tables([upstream], [name]), target).identical
