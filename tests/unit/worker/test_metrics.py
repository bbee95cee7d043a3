"""`/metrics` shows the numbers of `query-status` under the names of its page."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families

from dm.task.subtask import RELAY_UNITS
from dm.unit import JSON
from dm.worker.metric_families import FAMILIES
from dm.worker.metrics import (
    Ends,
    Samples,
    add_certificate,
    add_cut_overs,
    add_members,
    add_relay,
    add_space,
    add_subtask,
)
from tests.testbed.certificates import Authority
from tests.unit.worker.home import home, until

SYNC: dict[str, JSON] = {
    "totalEvents": "90", "totalTps": "4", "recentTps": "5", "totalTransactions": "40", "totalRows": "120",
    "recentRps": "12", "ioTotalBytes": "5000", "masterBinlog": "(mysql-bin.000012, 700)",
    "syncerBinlog": "(mysql-bin.000011, 154)", "synced": False, "secondsBehindMaster": "3", "lagSeconds": 3.25,
    "queuedRows": 7, "memoryUsed": 4096, "retries": 2, "safeMode": ["the first minute"], "blockingDDLSeconds": 61,
    "unresolvedGroups": [
        {"target": "`a`.`b`", "since": "2026-11-28 09:00:00+00:00", "unsynced": ["`s`.`t`"], "othersUnsynced": []},
        {"target": "`a`.`c`", "since": "2026-11-28 08:00:00+00:00", "unsynced": [], "othersUnsynced": ["x", "y"]},
    ],
    "binlogKeptSeconds": 86400, "binlogPurgedAt": 1795960000.5,
    "compared": [{"table": "a.b", "verdict": "different"}, {"table": "a.c", "verdict": "equal"},
                 {"table": "a.d", "verdict": "equal"}],
    "paceHolds": "loads of the target", "paceHeldShare": 0.25,
    "keysOfTwoSources": 8, "mergeOrder": {"lateTransactions": 9}, "oppositeTransactions": 5, "oppositeStatements": 2,
    "recordedConflicts": 4,
    "tables": [
        {"table": "a.b.c", "schema": "a.b", "inserts": 1, "updates": 2, "deletes": 3, "ddl": 4},
        {"table": "others, beyond 2000", "schema": "", "inserts": 9, "updates": 0, "deletes": 0, "ddl": 0},
    ],
}  # fmt: skip
DUMP: dict[str, JSON] = {
    "finishedRows": 10, "finishedBytes": 2000, "completedTables": 1, "estimateTotalRows": 40,
    "progress": "25.00 %", "etaSeconds": "30",
}  # fmt: skip
LOAD: dict[str, JSON] = {
    "finishedRows": "5", "finishedBytes": "100", "totalBytes": "200", "progress": "50.00 %", "etaSeconds": None,
}  # fmt: skip
RELAY: dict[str, JSON] = {
    "binlogKeptSeconds": 3600, "binlogPurgedAt": 1795960000.5,
    "stage": "Running", "masterBinlog": "(mysql-bin.000012, 700)", "relayBinlog": "(mysql-bin.000012, 600)",
    "sourceAnswers": False, "relaySubDir": "4f1c-aa.000002", "storage": {"freeBytes": "1", "waitsForSpace": True},
}  # fmt: skip
VALIDATION: dict[str, JSON] = {
    "validatorBinlog": "(mysql-bin.000011, 120)", "newErrors": 3, "pendingRows": 5, "pendingBytes": 600,
    "secondsBehindSyncer": 2.5,
}  # fmt: skip
NOW = datetime(2026, 11, 28, 10, 0, 30, tzinfo=UTC).timestamp()
NEVER = Ends(("Dump", "Load", "Sync"), {})


def subtask(stage: str = "Running", unit: str = "Sync", **parts: dict[str, JSON]) -> Mapping[str, JSON]:
    answers: dict[str, JSON] = {"relayRests": True, "sourceAnswers": True, "targetAnswers": False}
    return {"name": "t", "stage": stage, "unit": unit, **answers, **parts}


def shown(samples: Samples) -> dict[str, float]:
    """The samples as a query would name them, without the host's name."""
    found: dict[str, float] = {}
    for metric in samples.families():
        for sample in metric.samples:
            labels = ",".join(f"{key}={value}" for key, value in sorted(sample.labels.items()) if key != "worker")
            name = f"{sample.name}{{{labels}}}"
            assert name not in found
            found[name] = sample.value
    return found


def of(status: Mapping[str, JSON], ends: Ends = NEVER) -> dict[str, float]:
    samples = Samples("here")
    add_subtask(samples, status, "one", ends, NOW)
    return shown(samples)


def test_tables_that_are_aside_are_counted() -> None:
    name = "dm_worker_tables_aside{source_id=one,task=t}"
    assert of(subtask(sync=SYNC))[name] == 0
    branches: list[JSON] = [
        {"phase": "aside", "tables": ["`s`.`a`", "`s`.`b`"]},
        {"phase": "dropped", "tables": ["`s`.`c`"]},
        {"phase": "undo", "tables": ["`s`.`d`"]},
    ]
    assert of({**subtask(sync=SYNC), "branches": branches})[name] == 3


def test_the_numbers_of_a_sync_are_there() -> None:
    found = of(subtask(sync=SYNC))
    assert found["dm_worker_task_state{source_id=one,task=t}"] == 2
    assert found["dm_worker_task_unit{source_id=one,task=t,unit=Sync}"] == 1
    assert found["dm_worker_pace_held{source_id=one,task=t}"] == 1
    assert found["dm_worker_pace_held_share{source_id=one,task=t}"] == 0.25
    assert found["dm_syncer_binlog_kept_seconds{source_id=one,task=t}"] == 86400
    assert found["dm_syncer_binlog_purge_timestamp_seconds{source_id=one,task=t}"] == 1795960000.5
    assert found["dm_syncer_compared_tables{source_id=one,task=t,verdict=different}"] == 1
    assert found["dm_syncer_compared_tables{source_id=one,task=t,verdict=equal}"] == 2
    assert found["dm_syncer_replication_lag_gauge{source_id=one,task=t}"] == 3.25
    assert found["dm_syncer_binlog_file{node=master,source_id=one,task=t}"] == 12
    assert found["dm_syncer_binlog_pos{node=master,source_id=one,task=t}"] == 700
    assert found["dm_syncer_binlog_file{node=syncer,source_id=one,task=t}"] == 11
    assert found["dm_syncer_finished_transaction_total{source_id=one,task=t}"] == 40
    assert found["dm_syncer_finished_rows_total{source_id=one,task=t}"] == 120
    assert found["dm_syncer_rows_per_second{source_id=one,task=t}"] == 12
    assert found["dm_syncer_ddl_seconds{source_id=one,task=t}"] == 61
    assert found["dm_syncer_safe_mode{source_id=one,task=t}"] == 1
    assert found["dm_syncer_synced{source_id=one,task=t}"] == 0
    assert found["dm_syncer_keys_of_two_sources_total{source_id=one,task=t}"] == 8
    assert found["dm_syncer_late_transactions_total{source_id=one,task=t}"] == 9


def test_what_keeps_a_task_from_getting_on_is_there() -> None:
    found = of(subtask(sync=SYNC))
    assert found["dm_worker_task_relay_rests{source_id=one,task=t}"] == 1
    assert found["dm_worker_source_answers{source_id=one,task=t}"] == 1
    assert found["dm_worker_target_answers{source_id=one,task=t}"] == 0
    unknown = of({**subtask(), "sourceAnswers": None})
    assert not [name for name in unknown if name.startswith("dm_worker_source_answers")]


def test_a_name_with_a_dot_stays_where_it_belongs() -> None:
    found = of(subtask(sync=SYNC))
    labels = "source_id=one,target_schema=a.b,target_table=c,task=t"
    assert [
        found[f"dm_syncer_finished_jobs_total{{{labels},type={kind}}}"] for kind in ("insert", "update", "delete")
    ] == [1, 2, 3]
    assert found[f"dm_syncer_finished_jobs_total{{{labels},type=ddl}}"] == 4


def test_shards_that_wait_say_for_how_many_and_since_when() -> None:
    found = of(subtask(sync=SYNC))
    assert found["dm_syncer_shard_lock_resolving{source_id=one,task=t}"] == 1
    assert found["dm_syncer_unsynced_table_number{source_id=one,table=`a`.`b`,task=t}"] == 1
    assert found["dm_syncer_unsynced_table_number{source_id=one,table=`a`.`c`,task=t}"] == 2
    assert found["dm_syncer_shard_ddl_wait_seconds{source_id=one,task=t}"] == 2 * 3600 + 30
    none = of(subtask(sync={**SYNC, "unresolvedGroups": []}))
    assert none["dm_syncer_shard_lock_resolving{source_id=one,task=t}"] == 0
    assert none["dm_syncer_shard_ddl_wait_seconds{source_id=one,task=t}"] == 0
    assert not [name for name in none if "unsynced" in name]


def test_dump_and_load_say_how_far_they_are() -> None:
    dump, load = of(subtask(unit="Dump", dump=DUMP)), of(subtask(unit="Load", load=LOAD))
    assert dump["dumpling_dump_finished_rows{source_id=one,task=t}"] == 10
    assert dump["dm_dumpling_progress{source_id=one,task=t}"] == 0.25
    assert dump["dm_dumpling_remaining_time{source_id=one,task=t}"] == 30
    assert load["dm_loader_progress{source_id=one,task=t}"] == 0.5
    assert not [name for name in load if name.startswith("dm_loader_remaining_time")]  # nobody knows it
    known = of(subtask(unit="Load", load={**LOAD, "etaSeconds": "12"}))
    assert known["dm_loader_remaining_time{source_id=one,task=t}"] == 12


def test_a_validator_says_what_is_wrong_and_how_far_it_is() -> None:
    found = of(subtask(sync=SYNC, validation=VALIDATION))
    assert found["dm_validator_validator_error_count{source_id=one,task=t}"] == 3
    assert found["dm_validator_validator_binlog_pos{source_id=one,task=t}"] == 120
    assert found["dm_validator_behind_seconds{source_id=one,task=t}"] == 2.5
    assert not [name for name in of(subtask(sync=SYNC)) if name.startswith("dm_validator")]


def test_what_nobody_knows_has_no_sample() -> None:
    unknown = {**SYNC, "secondsBehindMaster": None, "masterBinlog": ""}
    del unknown["lagSeconds"]
    found = of(subtask(sync=unknown))
    assert not [name for name in found if name.startswith("dm_syncer_replication_lag") or "node=master" in name]
    assert of(subtask(stage="New", unit="InvalidUnit"))["dm_worker_task_state{source_id=one,task=t}"] == 1


def test_errors_are_counted_by_code_and_by_whether_they_are_tried_again() -> None:
    ends = Ends(
        ("Dump", "Load", "Sync"), {("Sync", 36910, False): 1, ("Sync", 10006, True): 3, ("Load", 34900, True): 2}
    )
    found = of(subtask(), ends)
    assert found["dm_worker_error_count{code=36910,source_id=one,task=t,unit=Sync}"] == 1
    assert found["dm_syncer_exit_with_error_count{resumable_err=true,source_id=one,task=t}"] == 3
    assert found["dm_syncer_exit_with_error_count{resumable_err=false,source_id=one,task=t}"] == 1
    assert found["dm_loader_exit_with_error_count{source_id=one,task=t}"] == 2
    assert found["dm_dumpling_exit_with_error_count{source_id=one,task=t}"] == 0  # there before it counts


def test_every_metric_of_the_page_is_shown_with_its_labels(tmp_path: Path) -> None:
    samples = Samples("here")
    samples.add("dm_worker_info", 1, {"version": "1"})
    ends = Ends(("Dump", "Load", "Sync"), {("Sync", 36910, False): 1})
    load = {**LOAD, "etaSeconds": "9"}
    add_subtask(samples, subtask(sync=SYNC, dump=DUMP, load=load, validation=VALIDATION), "one", ends, NOW)
    add_relay(samples, RELAY, "one", Ends(RELAY_UNITS, {}))
    add_space(samples, tmp_path, "one")
    add_certificate(samples, Authority(tmp_path).file)
    add_members(samples, {"a": 2, "b": 0}, answers=True)
    add_cut_overs(samples, {"t": {"state": "fenced", "why": "", "problem": ""}})
    found = {sample.name: tuple(sample.labels) for metric in samples.families() for sample in metric.samples}
    assert found == {name: family.labels for name, family in FAMILIES.items()}


def test_a_cut_over_shows_its_state_and_whether_it_gets_on() -> None:
    samples = Samples("here")
    add_cut_overs(samples, {"t": {"state": "switching", "why": "", "problem": "the hook failed"}})
    assert shown(samples) == {"dm_cut_over_state{state=switching,task=t}": 1, "dm_cut_over_problem{task=t}": 1}


def test_the_relay_says_where_it_is() -> None:
    samples = Samples("here")
    add_relay(samples, RELAY, "one", Ends(RELAY_UNITS, {("Relay", 30911, True): 1}))
    found = shown(samples)
    assert found["dm_relay_binlog_pos{node=relay,source_id=one}"] == 600
    assert found["dm_relay_sub_dir_index{node=relay,source_id=one,uuid=4f1c-aa}"] == 2
    assert found["dm_relay_waits_for_space{source_id=one}"] == 1
    assert found["dm_relay_binlog_kept_seconds{source_id=one}"] == 3600
    assert found["dm_relay_binlog_purge_timestamp_seconds{source_id=one}"] == 1795960000.5
    assert found["dm_relay_source_answers{source_id=one}"] == 0
    assert found["dm_relay_exit_with_error_count{resumable_err=true,source_id=one}"] == 1


def test_a_disk_that_is_gone_has_no_space(tmp_path: Path) -> None:
    samples = Samples("here")
    add_space(samples, tmp_path / "gone", "one")
    assert shown(samples) == {}


def scraped(token: str, address: str) -> dict[str, float]:
    answer = httpx.get(f"http://{address}/metrics", headers={"authorization": f"Bearer {token}"})
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return {
        f"{sample.name} {sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_a_scrape_counts_what_happened_to_a_task(tmp_path: Path) -> None:
    with home(tmp_path / "home") as running:
        running.directory.mkdir()
        running.script("t", Sync={"error": "ddl-failed", "statement": "ALTER", "cause": "no"})
        running.start("--metrics-addr", "127.0.0.1:0")
        found = re.search(r'"metrics": "([^"]+)"', (running.directory / "daemon.log").read_text())
        assert found is not None
        token = (running.directory / "metrics-token").read_text().strip()
        running.ok("operate-source", "create", running.source())
        running.tried("start-task", running.task())
        until(lambda: running.stage() == ("Paused", "Sync"))
        text = str(scraped(token, found[1]))
        assert re.search(r"dm_worker_task_state \[.*\]\": 3.0", text)
        assert re.search(r"dm_worker_error_count \[\('code', '36910'\).*\('unit', 'Sync'\)\]\": 1.0", text)
        assert re.search(r"dm_syncer_exit_with_error_count \[\('resumable_err', 'false'\).*\]\": 1.0", text)
        assert "process_cpu_seconds_total" in text
        running.ok("stop-task", "t")
        assert "dm_worker_task_state" not in str(scraped(token, found[1]))
