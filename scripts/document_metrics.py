"""Writes docs/metrics.md from the families that `/metrics` shows, so that the page can't say anything else.

Run it after a change of dm/worker/metric_families.py; a test compares the page with what this would write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dm.worker.metric_families import FAMILIES, Family

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "metrics.md"
COMMAND: Final = ".venv/bin/python scripts/document_metrics.py"

_HEAD: Final = f"""# Metrics

<!-- Written by `{COMMAND}` from dm/worker/metric_families.py; do not edit. -->

`dm-worker` shows its tasks at `/metrics` in Prometheus' text format. Two options open a port for it:

| option of `dm-worker` | the port has |
|---|---|
| `--listen 127.0.0.1:8261` | the whole API, and `/metrics` |
| `--metrics-addr 127.0.0.1:8262` | `/metrics` alone |

Each request there needs a token: that of `$DM_HOME/metrics-token`, which opens `/metrics` and nothing else, or any
other one. Prometheus runs as another user as a rule. Give it a copy:

```console
# install -o prometheus -m 0400 ~dm/.dm/metrics-token /etc/prometheus/dm.token
```

A Prometheus on another machine reaches a port with TLS. [api.md](api.md) has that, all tokens, and what a port takes.

## Prometheus' configuration

```yaml
scrape_configs:
  - job_name: dm
    authorization: {{credentials_file: /etc/prometheus/dm.token}}
    static_configs:
      - targets: ["127.0.0.1:8262"]
rule_files: [dm.rules.yml]
```

A scrape asks each task for its status as of now, as `query-status` does. That takes up to five seconds where a source
does not answer; `scrape_timeout` must be longer (Prometheus' default is ten).

## Alerts and the board

`monitoring/dm.rules.yml` has DM's rules where they mean something here, and ours. Copy it beside Prometheus'
configuration. Each rule says what is the matter and which `dmctl` command is next. `promtool test rules
monitoring/rules_test.yml` shows when each one fires. `monitoring/dm.grafana.json` is a board for Grafana: import it
and choose the Prometheus that scrapes `dm-worker`.

Two installations in one Prometheus need two jobs: a rule looks at the series of one job together. `DM_worker_offline`
has the name of the job, `dm`; name yours there. Daemons of one job that are not
[several hosts of one cluster](several-hosts.md) need tasks of different names: else a task that runs at one of them
hides the pause of its namesake at another (`DM_task_state`).

`DM_pending_DDL`: shards wait for a DDL that others have yet to come to. `dmctl shard-ddl-lock list` says which
([sharding.md](sharding.md)). dm's own are `DM_replication_lag`, `DM_no_progress`, `DM_long_DDL`,
`DM_source_unreachable`, `DM_target_unreachable`, `DM_relay_of_task_rests`, `DM_binlog_purge_is_near`,
`DM_comparison_different`, `DM_validator_errors`, `DM_table_aside`, `DM_cut_over_rests`, `DM_etcd_unreachable` and
`DM_certificate_ends`. `DM_binlog_purge_is_near` fires when three quarters of the time are over for which the source
keeps its binlog, by age or by size; what is purged by hand is not foreseen. These of DM's rules are missing:

| rule of DM | why it is not there |
|---|---|
| `DM_master_all_down` | there is no master: `DM_worker_offline` |
| `DM_DDL_error` | DDL of shards that can't be joined pauses the task: `DM_task_state` |
| `DM_relay_log_data_corruption` | it ends the relay with an error: `DM_relay_process_exits_with_error` |
| `DM_fail_to_read_binlog_from_master` | the same |
| `DM_fail_to_write_relay_log` | the same |

What ended a relay is in the label `code` of `dm_worker_error_count{{unit="Relay"}}` ([errors.md](errors.md)).

## The metrics

Names, labels and meaning are DM's, except for those that are marked as dm's own. `worker` is the name of the host. The
metrics of a unit are there while a task is in this unit: `dumpling_` and `dm_dumpling_` in a dump, `dm_loader_` in a
load, `dm_syncer_` afterwards. A value that nobody knows has no sample, such as the lag while the source does not
answer. Counters begin at 0 when a unit starts. A task that was stopped has no metrics; one that is finished keeps them.

DM has histograms of single events and statements (`dm_syncer_read_binlog_duration` and others). dm measures none of
these: what a task spends its time on is in `timeShares` of `query-status --output json`. These of DM's metrics are
missing, too:

- `dm_syncer_added_jobs_total`, `dm_syncer_binlog_event_row`, `dm_syncer_ideal_qps`: take `dm_syncer_read_events_total`
  and `dm_syncer_finished_rows_total`; `timeShares` says whether source or target is the slower one.
- `dm_syncer_remaining_time`: take the slope of `dm_syncer_replication_lag_gauge`. A rate of bytes says little of the
  time that rows take.
- `dm_syncer_replication_transaction_batch`, `dm_syncer_flush_checkpoints_time_interval`: a batch takes what waits, and
  the checkpoint is stored each second.
- `dm_relay_data_corruption`, `dm_relay_read_error_count`, `dm_relay_write_error_count`: take
  `dm_worker_error_count{{unit="Relay"}}`, which has the code.
- `dm_validator_validator_logpos_latency`, `dm_validator_validator_logfile_latency`: take `dm_validator_behind_seconds`.
- `dm_worker_operate_error`, `dm_worker_cpu_usage`, and all of `dm_master_` but `dm_master_worker_state`: `dmctl` shows
  the errors of verbs, an exporter of the host has the processes, and there is no master.

| metric | type | labels | value | whose |
|---|---|---|---|---|
"""

_TAIL: Final = """
`process_cpu_seconds_total`, `process_resident_memory_bytes` and the other metrics of a process are those of `dm-worker`
itself. The units run in processes of their own.
"""


def page() -> str:
    """The whole page."""
    return _HEAD + "".join(_line(family) for family in FAMILIES.values()) + _TAIL


def _line(family: Family) -> str:
    labels = ", ".join(f"`{label}`" for label in family.labels)
    whose = "dm" if family.ours else "DM"
    return f"| `{family.name}` | {family.kind} | {labels} | {family.meaning} | {whose} |\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
