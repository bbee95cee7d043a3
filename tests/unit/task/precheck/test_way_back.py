"""What the way back has brought has its progress in the same transaction; what is missing has its own way out."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest

from dm.config.units import SyncerConfig
from dm.errors import CATALOGUE, DMError
from dm.gtid import GtidSet
from dm.position import Position
from dm.progress.opposite import Opposite
from dm.task.precheck import way_back
from dm.task.precheck.context import Answers, Context
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


READ = Position("11111111-1111-1111-1111-111111111111", "binlog.000005", 158)


@pytest.mark.parametrize(
    ("gtid_mode", "name"), [(False, "source-changed-without-gtid"), (True, "source-gtid-diverged")]
)
def test_another_server_is_no_case_for_binlog_files_that_are_put_back(
    gtid_mode: bool, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*arguments: object, **options: object) -> None:
        raise DMError("source-gtid-diverged", missing="a:1-5")

    gtids = GtidSet.parse(f"{READ.server_uuid}:1-5", "mysql") if gtid_mode else READ.gtid_set
    monkeypatch.setattr(way_back, "places_needed", lambda config: [replace(READ, gtid_set=gtids)])
    monkeypatch.setattr(way_back, "expect_all", refused)
    facts = SimpleNamespace(server_uuid="22222222-2222-2222-2222-222222222222", gtid_mode=gtid_mode, log_bin=True)
    source = SimpleNamespace(facts=facts, connection=None, endpoint=SimpleNamespace(address="h:1"))
    fields = {"source": source, "relay": None, "anew": False, "at_time": False, "config": None}
    [found] = way_back.readable(cast(Context, SimpleNamespace(**fields)), Answers("checkpoint", "source s"))
    assert found.state == "failure"
    assert "restore" not in found.instruction
    assert found.instruction == CATALOGUE[name].workaround
