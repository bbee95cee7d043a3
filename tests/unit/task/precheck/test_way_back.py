"""What the way back has brought has its progress in the same transaction."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import pytest

from dm.config.units import SyncerConfig
from dm.progress.opposite import Opposite
from dm.task.precheck.context import Context
from dm.task.precheck.way_back import _Returned
from tests.unit.sourcelog.stream.test_assembler import Stream

PROGRESS = "back_syncer_worker"


@pytest.mark.parametrize("named", [True, False])  # MySQL 5.6 announces no transaction that has no GTID
def test_progress_and_rows_of_two_transactions_are_no_proof(named: bool) -> None:
    rules = SimpleNamespace(wanted=lambda table: table.table == "t")
    config = SimpleNamespace(syncer=SyncerConfig())
    context = cast(Context, SimpleNamespace(rules=rules, config=config))
    returned = _Returned(context, {"back": Opposite("db", "back").tables(folded=False)})
    stream, numbers = Stream(), iter(range(1, 9))

    def found(*tables: str) -> bool:
        begin = [stream.gtid(next(numbers))] if named else []
        maps = [stream.table_map(at, table) for at, table in enumerate(tables)]
        events = [*begin, stream.query("BEGIN"), *maps, stream.xid()]
        return True in [returned.takes(event.raw) for event in events]

    assert not returned.takes(stream.format.raw)
    assert not found(PROGRESS)
    assert not found("t")
    assert not found("other", PROGRESS)
    assert not found("t", PROGRESS), "a task's own transaction begins with its progress"
    assert not found("back_validator_status", "t")
    assert found(PROGRESS, "t")
