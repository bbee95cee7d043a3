"""A comparison holds up neither writers nor DDL, at the source or at the target."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from dm.demo.servers import ThrowawayServer
from tests.live.diff.test_snapshot import both, meanwhile  # noqa: F401  # a fixture
from tests.testbed.diffing import compared
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.general_log import logged
from tests.testbed.sync import subtask_for

pytestmark = pytest.mark.live

LOCKING = re.compile(
    r"\bLOCK\s+(TABLES?|INSTANCE)|\bFLUSH\b|\bFOR\s+(UPDATE|SHARE)|LOCK\s+IN\s+SHARE|\bGET_LOCK|BACKUP\s+STAGE|read_only",
    re.IGNORECASE,
)


@pytest.mark.parametrize("snapshots", [(), ("now",)])
def test_no_statement_asks_for_a_lock(
    snapshots: tuple[str, ...], upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    both(upstream, target, name)
    for server in (upstream, target):
        server.execute(f"CREATE TABLE {name}.keyless (v INT)", f"INSERT INTO {name}.keyless VALUES (1), (1)")
    target.execute(f"UPDATE {name}.t SET v = -1 WHERE id = 2", f"DELETE FROM {name}.keyless LIMIT 1")
    subtask = subtask_for(upstream, target, name, task=name)
    with logged(upstream) as at_source, logged(target) as at_target:
        outcomes = compared(subtask, *snapshots)
    assert sum(len(outcome.differences) for outcome in outcomes) == 2
    for sent in (at_source, at_target):
        statements = [statement.text for statement in sent]
        assert sum(f"`{name}`.`t`" in text for text in statements) >= 3, "checksum, buckets and rows"
        assert [text for text in statements if LOCKING.search(text)] == []


ONCE = "UPDATE {}.t SET v = v + 100 WHERE id = 3"


@pytest.mark.parametrize(
    ("snapshots", "written", "changed", "differing"),
    [
        # Its table is another one than that which it had begun with.
        pytest.param((), (ONCE, "ALTER TABLE {}.t ADD COLUMN n INT"), True, [], id="rows and a structure"),
        pytest.param(("now",), (ONCE,), False, ["id=2"], id="rows, in the middle of one moment"),
    ],
)
def test_writers_and_ddl_come_between_its_questions(
    upstream: ThrowawayServer,
    target: ThrowawayServer,
    schema: SchemaFactory,
    meanwhile: Callable[[Callable[[], None]], None],  # noqa: F811
    snapshots: tuple[str, ...],
    written: tuple[str, ...],
    changed: bool,
    differing: list[str],
) -> None:
    name = schema(upstream, target)
    both(upstream, target, name)
    target.execute(f"UPDATE {name}.t SET v = -1 WHERE id = 2")
    acted: list[str] = []

    def act() -> None:
        waits = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1"
        for server in (upstream, target):
            server.execute(waits, *(statement.format(name) for statement in written))
        acted.append("both")

    meanwhile(act)
    (outcome,) = compared(subtask_for(upstream, target, name, task=name), *snapshots)
    assert acted == ["both"]
    assert (bool(outcome.changed), [each.key for each in outcome.differences]) == (changed, differing)
