"""The metrics by name: type, labels and meaning.

Each family is declared once; docs/metrics.md is generated from these declarations. A metric has DM's name and labels if
its value means the same there. DM has one source per worker, so its relay metrics name no source; ours also have the
label `source_id`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["gauge", "counter", "untyped"]

# DM's numbers of stages (dm/pb, Stage).
STAGES: Final[Mapping[str, int]] = {
    "New": 1, "Running": 2, "Paused": 3, "Stopped": 4, "Finished": 5, "Pausing": 6, "Stopping": 8,
}  # fmt: skip

_TASK: Final = ("task", "source_id")
_WORKER: Final = ("task", "source_id", "worker")


@dataclass(frozen=True, slots=True)
class Family:
    """One metric with its labels; `ours` where DM has none of this name."""

    name: str
    kind: Kind
    labels: tuple[str, ...]
    meaning: str
    ours: bool = False


_STAGES_TEXT: Final = ", ".join(f"{number} {stage}" for stage, number in STAGES.items())

# DM's counters have names without `_total`. The text format would add it to a counter, so they go without a type.
_FAMILIES: Final = (
    Family("dm_worker_task_state", "gauge", _WORKER, f"stage of the task on the source: {_STAGES_TEXT}"),
    Family("dm_worker_task_unit", "gauge", (*_WORKER, "unit"), "1 for the unit that the task is in", ours=True),
    Family(
        "dm_worker_error_count", "untyped", (*_TASK, "unit", "code"),
        "how often a unit ended with this error; `unit` is Relay and `task` empty for a relay", ours=True,
    ),
    Family(
        "dm_worker_relay_state", "gauge", ("source_id",),
        "stage of the source's relay, numbered as above", ours=True,
    ),
    Family(
        "dm_worker_task_relay_rests", "gauge", _TASK,
        "1 while the relay that the running task reads is paused, by an error or by a person", ours=True,
    ),
    Family(
        "dm_worker_source_answers", "gauge", _TASK,
        "0 while the task can't reach its source, 1 while it answers", ours=True,
    ),
    Family(
        "dm_worker_target_answers", "gauge", _TASK,
        "0 while the task can't reach its target, 1 while it answers", ours=True,
    ),
    Family(
        "dm_worker_certificate_expiry_timestamp_seconds", "gauge", (),
        "when the certificate of dm-worker's ports ends, in seconds since 1970; only with `--ssl-cert`", ours=True,
    ),
    Family(
        "dm_master_worker_state", "gauge", ("worker",),
        "of several hosts, as this member knows them: 0 a member that is gone, 1 one without sources, 2 with sources",
    ),
    Family(
        "dm_worker_etcd_answers", "gauge", ("worker",),
        "0 while this member's lease can't be renewed, 1 while it is; only of several hosts", ours=True,
    ),
    Family("dm_worker_pace_held", "gauge", _TASK, "1 while `pace` holds the task back", ours=True),
    Family(
        "dm_worker_pace_held_share", "gauge", _TASK,
        "share of the time since the limits of `pace` were set in which they held the task back", ours=True,
    ),
    Family(
        "dm_worker_tables_aside", "gauge", _TASK,
        "tables that are not in the task's stream because of an error or a person, or on their way back", ours=True,
    ),
    Family("dm_worker_info", "gauge", ("version",), "1 for the version of dm-worker that runs", ours=True),
    Family(
        "dm_cut_over_state", "gauge", ("task", "state"),
        "1 for the state of the task's cut-over, of those that this daemon drives or has driven", ours=True,
    ),
    Family(
        "dm_cut_over_problem", "gauge", ("task",),
        "1 while a cut-over waits for something or rests, `dmctl cut-over TASK --status` says for what", ours=True,
    ),
    Family("dm_syncer_replication_lag_gauge", "gauge", _WORKER, "seconds that the target is behind the source"),
    Family("dm_syncer_synced", "gauge", _TASK, "1 while everything that the source has is at the target", ours=True),
    Family(
        "dm_syncer_binlog_file", "gauge", ("node", *_TASK),
        "number of the binlog file: of the source's end (`master`), of the task (`syncer`)",
    ),
    Family("dm_syncer_binlog_pos", "gauge", ("node", *_TASK), "offset in that file"),
    Family(
        "dm_syncer_finished_transaction_total", "counter", _WORKER,
        "transactions of the source that are at the target",
    ),
    Family(
        "dm_syncer_finished_jobs_total", "counter", ("type", *_WORKER, "target_schema", "target_table"),
        "rows (`type` insert, update, delete) and statements (`ddl`) at the target; the 50 busiest tables",
    ),
    Family("dm_syncer_finished_rows_total", "counter", _TASK, "rows at the target, of all tables", ours=True),
    Family("dm_syncer_read_bytes_total", "counter", _TASK, "bytes of binlog that were read", ours=True),
    Family("dm_syncer_read_events_total", "counter", _TASK, "events that were read", ours=True),
    Family("dm_syncer_rows_per_second", "gauge", _TASK, "rows per second, over ten seconds", ours=True),
    Family("dm_syncer_transactions_per_second", "gauge", _TASK, "transactions per second, over ten seconds", ours=True),
    Family("dm_syncer_queue_size", "gauge", _TASK, "rows that wait for the target"),
    Family(
        "dm_syncer_memory_bytes", "gauge", _TASK,
        "memory that queued rows take; `memory-quota` is the limit", ours=True,
    ),
    Family(
        "dm_syncer_ddl_seconds", "gauge", _TASK,
        "seconds that the DDL statement under way has taken; 0 when none is", ours=True,
    ),
    Family("dm_syncer_shard_lock_resolving", "gauge", _TASK, "1 while shards wait for a DDL of others"),
    Family(
        "dm_syncer_unsynced_table_number", "gauge", ("task", "table", "source_id"),
        "of a target table whose shards wait: how many shards have not come to the DDL",
    ),
    Family(
        "dm_syncer_shard_ddl_wait_seconds", "gauge", _TASK,
        "seconds that a shard has waited for a DDL of others, the longest of all; 0 when none waits", ours=True,
    ),
    Family(
        "dm_syncer_binlog_kept_seconds", "gauge", _TASK,
        "after how long the source purges its binlog by itself, by age or by size; only where it does, and no relay"
        " keeps it",
        ours=True,
    ),
    Family(
        "dm_syncer_binlog_purge_timestamp_seconds", "gauge", _TASK,
        "when the source may purge what the task reads next, in seconds since 1970; it stays while the task rests",
        ours=True,
    ),
    Family(
        "dm_syncer_compared_tables", "gauge", ("verdict", *_TASK),
        "target tables by what their last comparison (`dmctl diff`) has found: `equal`, `different`", ours=True,
    ),
    Family("dm_syncer_safe_mode", "gauge", _TASK, "1 in safe mode", ours=True),
    Family(
        "dm_syncer_retries_total", "counter", _TASK,
        "batches that were tried again, after a deadlock for example", ours=True,
    ),
    Family(
        "dm_syncer_keys_of_two_sources_total", "counter", _TASK,
        "changes of a key that another source of the task had written before, without a `merge-order`", ours=True,
    ),
    Family(
        "dm_syncer_opposite_transactions_total", "counter", _TASK,
        "transactions of the source that were left out, since the task named as `opposite` has written them", ours=True,
    ),
    Family(
        "dm_syncer_recorded_conflicts_total", "counter", _TASK,
        "rows that both sides have written and that are in the record, where one side wins (`conflicts`)", ours=True,
    ),
    Family(
        "dm_syncer_opposite_statements_total", "counter", _TASK,
        "DDL statements of the source that were not executed, because that task has executed them there", ours=True,
    ),
    Family(
        "dm_syncer_late_transactions_total", "counter", _TASK,
        "with `merge-order`: transactions that came after a later one of another source", ours=True,
    ),
    Family(
        "dm_syncer_exit_with_error_count", "untyped", (*_TASK, "resumable_err"),
        "how often the sync unit ended with an error; `resumable_err` is true where it is tried again by "
        "itself",
    ),
    Family(
        "dm_validator_validator_error_count", "gauge", _TASK,
        "rows that are wrong at the target and that nobody has dealt with",
    ),
    Family("dm_validator_validator_binlog_file", "gauge", _TASK, "number of the binlog file that the validator is in"),
    Family("dm_validator_validator_binlog_pos", "gauge", _TASK, "offset in that file"),
    Family("dm_validator_pending_rows", "gauge", _TASK, "rows that wait to be found equal", ours=True),
    Family("dm_validator_pending_bytes", "gauge", _TASK, "memory that these take, about", ours=True),
    Family(
        "dm_validator_behind_seconds", "gauge", _TASK,
        "the source's time between what the validator has read and now; 0 when it has all that is applied", ours=True,
    ),
    Family("dumpling_dump_finished_rows", "gauge", _TASK, "rows that are dumped"),
    Family("dumpling_dump_finished_size", "gauge", _TASK, "bytes that are dumped"),
    Family("dumpling_dump_finished_tables", "gauge", _TASK, "tables that are dumped"),
    Family("dumpling_dump_estimate_total_rows", "gauge", _TASK, "rows that the dump will have, as estimated"),
    Family("dm_dumpling_progress", "gauge", _TASK, "share of the dump that is done, 0 to 1", ours=True),
    Family("dm_dumpling_remaining_time", "gauge", _TASK, "seconds until the dump is done, as estimated", ours=True),
    Family("dm_dumpling_exit_with_error_count", "untyped", _TASK, "how often the dump unit ended with an error"),
    Family("dm_loader_progress", "gauge", _TASK, "share of the load that is done, 0 to 1"),
    Family("dm_loader_data_size_gauge", "gauge", _TASK, "bytes that the load has in all"),
    Family("dm_loader_finished_bytes", "gauge", _TASK, "bytes that are loaded", ours=True),
    Family("dm_loader_finished_rows", "gauge", _TASK, "rows that are loaded", ours=True),
    Family("dm_loader_remaining_time", "gauge", _TASK, "seconds until the load is done, as estimated"),
    Family("dm_loader_exit_with_error_count", "untyped", _TASK, "how often the load unit ended with an error"),
    Family(
        "dm_relay_binlog_file", "gauge", ("node", "source_id"),
        "number of the binlog file: of the source's end (`master`), of the relay (`relay`)",
    ),
    Family("dm_relay_binlog_pos", "gauge", ("node", "source_id"), "offset in that file"),
    Family("dm_relay_sub_dir_index", "gauge", ("node", "uuid", "source_id"), "number of the relay's sub-directory"),
    Family(
        "dm_relay_space", "gauge", ("type", "source_id"),
        "bytes of the disk that the relay files are on: `capacity`, `available`",
    ),
    Family(
        "dm_relay_source_answers", "gauge", ("source_id",),
        "0 while the relay can't reach the source, 1 while it receives", ours=True,
    ),
    Family(
        "dm_relay_binlog_kept_seconds", "gauge", ("source_id",),
        "after how long the source purges its binlog by itself, by age or by size; only where it does", ours=True,
    ),
    Family(
        "dm_relay_binlog_purge_timestamp_seconds", "gauge", ("source_id",),
        "when the source may purge what the relay reads next, in seconds since 1970, where that is known; it stays"
        " while the relay rests",
        ours=True,
    ),
    Family("dm_relay_waits_for_space", "gauge", ("source_id",), "1 while the relay waits for free space", ours=True),
    Family(
        "dm_relay_exit_with_error_count", "untyped", ("source_id", "resumable_err"),
        "how often the relay ended with an error",
    ),
)  # fmt: skip

FAMILIES: Final[Mapping[str, Family]] = {family.name: family for family in _FAMILIES}
