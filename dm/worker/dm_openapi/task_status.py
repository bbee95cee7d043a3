"""The status of a task on a source: what `query-status` says, in the shape of DM's OpenAPI."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dm.worker.dm_openapi.sources import error_texts
from dm.worker.dm_openapi.task_shapes import (
    DMSyncStatus,
    DumpStatus,
    LoadStatus,
    ShardingGroup,
    SubTaskStatus,
)

UNKNOWN_LAG: Final = -1
"""Seconds behind the source that nobody knows; 0 would say that it has caught up."""


def not_started(task: str, source: str, worker: str) -> SubTaskStatus:
    """Of one that was created only."""
    return SubTaskStatus(name=task, source_name=source, worker_name=worker, stage="Stopped", unit="InvalidUnit")


def status_of(task: str, source: str, worker: str, said: Mapping[str, Any], *, stopped: bool) -> SubTaskStatus:
    """Of one that `query-status` tells of; `stopped`: a person has had it rest, which DM calls so."""
    return SubTaskStatus(
        name=task,
        source_name=source,
        worker_name=worker,
        stage="Stopped" if stopped else said["stage"],
        unit=said["unit"],
        unresolved_ddl_lock_id=said["unresolvedDDLLockID"],
        load_status=_load(said["load"]) if "load" in said else None,
        sync_status=_sync(said["sync"]) if "sync" in said else None,
        dump_status=_dump(said["dump"]) if "dump" in said else None,
        error_msg=error_texts(said["result"]),
    )


def _number(said: Mapping[str, Any], key: str) -> int:
    return int(float(said.get(key) or 0))


def _load(said: Mapping[str, Any]) -> LoadStatus:
    return LoadStatus(
        finished_bytes=_number(said, "finishedBytes"),
        total_bytes=_number(said, "totalBytes"),
        progress=str(said.get("progress", "")),
        meta_binlog=str(said.get("metaBinlog", "")),
        meta_binlog_gtid=str(said.get("metaBinlogGTID", "")),
    )


def _dump(said: Mapping[str, Any]) -> DumpStatus:
    return DumpStatus(
        total_tables=_number(said, "totalTables"),
        completed_tables=float(said.get("completedTables") or 0),
        finished_bytes=float(said.get("finishedBytes") or 0),
        finished_rows=float(said.get("finishedRows") or 0),
        estimate_total_rows=float(said.get("estimateTotalRows") or 0),
    )


def _sync(said: Mapping[str, Any]) -> DMSyncStatus:
    lag = said.get("secondsBehindMaster")
    return DMSyncStatus(
        total_events=_number(said, "totalEvents"),
        total_tps=_number(said, "totalTps"),
        recent_tps=_number(said, "recentTps"),
        master_binlog=str(said.get("masterBinlog", "")),
        master_binlog_gtid=str(said.get("masterBinlogGtid", "")),
        syncer_binlog=str(said.get("syncerBinlog", "")),
        syncer_binlog_gtid=str(said.get("syncerBinlogGtid", "")),
        blocking_ddls=[str(each) for each in said.get("blockingDDLs") or ()],
        unresolved_groups=[_group(each) for each in said.get("unresolvedGroups") or ()],
        synced=bool(said.get("synced")),
        binlog_type=str(said.get("binlogType", "")),
        seconds_behind_master=UNKNOWN_LAG if lag is None else int(float(lag)),
    )


def _group(said: Mapping[str, Any]) -> ShardingGroup:
    return ShardingGroup(
        target=str(said.get("target", "")),
        ddl_list=[str(each) for each in said.get("DDLs") or ()],
        first_location=str(said.get("firstLocation", said.get("firstPos", ""))),
        synced=[str(each) for each in said.get("synced") or ()],
        unsynced=[str(each) for each in said.get("unsynced") or ()],
    )
