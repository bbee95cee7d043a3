"""`/metrics`: the status of everything, as Prometheus reads it.

The numbers are those of `query-status`, so the two can't differ. A scrape asks each unit for a fresh status; a unit
that does not answer in time is shown with its last one. Between scrapes only errors are counted (`Subtask.failures`). A
unit's counters begin at 0 with each run, as Prometheus expects of a restarted process.
"""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Final, cast

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric, UnknownMetricFamily
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import Collector

from dm.cluster.membership import Membership
from dm.cluster.ownership import SOURCE
from dm.text import is_decimal
from dm.unit import JSON
from dm.worker.installed import installed_version
from dm.worker.job import Job
from dm.worker.loop import Loop
from dm.worker.metric_families import FAMILIES, STAGES, Family
from dm.worker.query_status import source_status, subtask_status
from dm.worker.supervisor import Supervisor

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
FRESH_SECONDS: Final = 5.0  # half of the time that Prometheus gives a scrape unless told otherwise

# The numbers of a status that are a metric as they stand.
_OF_SYNC: Final[Mapping[str, str]] = {
    "totalTransactions": "dm_syncer_finished_transaction_total",
    "oppositeTransactions": "dm_syncer_opposite_transactions_total",
    "oppositeStatements": "dm_syncer_opposite_statements_total",
    "recordedConflicts": "dm_syncer_recorded_conflicts_total",
    "totalRows": "dm_syncer_finished_rows_total",
    "ioTotalBytes": "dm_syncer_read_bytes_total",
    "totalEvents": "dm_syncer_read_events_total",
    "recentRps": "dm_syncer_rows_per_second",
    "recentTps": "dm_syncer_transactions_per_second",
    "queuedRows": "dm_syncer_queue_size",
    "memoryUsed": "dm_syncer_memory_bytes",
    "retries": "dm_syncer_retries_total",
    "keysOfTwoSources": "dm_syncer_keys_of_two_sources_total",
    "binlogPurgedAt": "dm_syncer_binlog_purge_timestamp_seconds",
}
_OF_SUBTASK: Final[Mapping[str, str]] = {
    "relayRests": "dm_worker_task_relay_rests",
    "sourceAnswers": "dm_worker_source_answers",
    "targetAnswers": "dm_worker_target_answers",
}
_OF_DUMP: Final[Mapping[str, str]] = {
    "finishedRows": "dumpling_dump_finished_rows",
    "finishedBytes": "dumpling_dump_finished_size",
    "completedTables": "dumpling_dump_finished_tables",
    "estimateTotalRows": "dumpling_dump_estimate_total_rows",
    "progress": "dm_dumpling_progress",
    "etaSeconds": "dm_dumpling_remaining_time",
}
_OF_LOAD: Final[Mapping[str, str]] = {
    "progress": "dm_loader_progress",
    "totalBytes": "dm_loader_data_size_gauge",
    "finishedBytes": "dm_loader_finished_bytes",
    "finishedRows": "dm_loader_finished_rows",
    "etaSeconds": "dm_loader_remaining_time",
}
_ROWS: Final = {"inserts": "insert", "updates": "update", "deletes": "delete", "ddl": "ddl"}
_EXITS: Final = {
    "Dump": "dm_dumpling_exit_with_error_count",
    "Load": "dm_loader_exit_with_error_count",
    "Sync": "dm_syncer_exit_with_error_count",
    "Relay": "dm_relay_exit_with_error_count",
}
_POSITION: Final = re.compile(r"\(.*\.(\d+), (\d+)\)")  # as Position prints: (mysql-bin.000001, 154)

Failures = Mapping[tuple[str, int, bool], int]  # by unit, code, and whether it is tried again by itself


@dataclass(frozen=True, slots=True)
class Ends:
    """How runs of a subtask or a relay ended: its units, and how often each ended with which error."""

    units: Sequence[str]
    failures: Failures

    @classmethod
    def of(cls, job: Job) -> Ends:
        """As of now."""
        return cls(job.subtask.units, dict(job.subtask.failures))


class Samples:
    """The values of one scrape, by family."""

    def __init__(self, worker: str) -> None:
        self._families: dict[str, Metric] = {}
        self._worker = worker

    def add(self, name: str, value: JSON, labels: Mapping[str, str]) -> None:
        """A value; None says that nobody knows it, then there is no sample."""
        number = _number(value)
        if number is None:
            return
        family = FAMILIES[name]
        known = {"worker": self._worker, **labels}
        metric = self._families.setdefault(name, _metric(family))
        metric.add_sample(name, {label: known[label] for label in family.labels}, number)

    def add_all(self, names: Mapping[str, str], status: Mapping[str, JSON], labels: Mapping[str, str]) -> None:
        """The values of a status that stand there as they are to be shown."""
        for key, name in names.items():
            self.add(name, status.get(key), labels)

    def add_position(self, family: str, position: JSON, labels: Mapping[str, str]) -> None:
        """File number and offset of a position; none while it is unknown."""
        found = _POSITION.fullmatch(str(position))
        if found is not None:
            self.add(f"{family}_binlog_file", int(found[1]), labels)
            self.add(f"{family}_binlog_pos", int(found[2]), labels)

    def families(self) -> Iterable[Metric]:
        """In the order of docs/metrics.md."""
        return [self._families[name] for name in FAMILIES if name in self._families]


@dataclass(frozen=True, slots=True)
class _Seen:
    """What the supervisor knew at one moment, as data: it is shown without its thread."""

    subtasks: Sequence[tuple[Mapping[str, JSON], str, Ends]]  # status, source
    relays: Mapping[str, tuple[Mapping[str, JSON], Ends, Path]]  # by source


class Metrics(Collector):
    """Asks the supervisor, scrape by scrape."""

    def __init__(
        self,
        loop: Loop,
        supervisor: Supervisor,
        certificate: Path | None = None,
        cut_overs: Callable[[], Mapping[str, Mapping[str, JSON]]] = dict,
        membership: Membership | None = None,
    ) -> None:
        self._membership = membership
        self._cut_overs = cut_overs
        self._loop = loop
        self._supervisor = supervisor
        self._certificate = certificate
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)  # memory, processor time and open files of the daemon itself

    def text(self) -> bytes:
        """The answer to a scrape."""
        return generate_latest(self._registry)

    def describe(self) -> Iterable[Metric]:
        """Nothing is asked when this is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """The families as of now."""
        asked = self._loop.call(lambda: [(job, job.refresh()) for job in self._jobs()])
        self._loop.wait_until(lambda: all(job.fresh(request) for job, request in asked), FRESH_SECONDS)
        seen = self._loop.call(lambda: self._look(asked))
        samples = Samples(self._supervisor.worker)
        samples.add("dm_worker_info", 1, {"version": installed_version()})
        if self._certificate is not None:
            add_certificate(samples, self._certificate)
        add_cut_overs(samples, self._cut_overs())
        if self._membership is not None:
            add_members(samples, member_states(self._membership), answers=self._membership.lease.in_touch)
        now = self._supervisor.clock.time()
        for status, source, ends in seen.subtasks:
            add_subtask(samples, status, source, ends, now)
        for source, (relay, ends, directory) in seen.relays.items():
            add_relay(samples, relay, source, ends)
            add_space(samples, directory, source)
        return samples.families()

    def _jobs(self) -> list[Job]:
        return [job for task in self._supervisor.tasks.values() for job in task.jobs.values()]

    def _look(self, asked: Sequence[tuple[Job, int]]) -> _Seen:
        relays: dict[str, tuple[Mapping[str, JSON], Ends, Path]] = {}
        for name, source in self._supervisor.sources.items():
            status = source_status(self._supervisor, name)["relayStatus"]
            if source.relay is not None and isinstance(status, dict):
                directory = self._supervisor.relay_directory(name)
                relays[name] = (status, Ends.of(source.relay), directory)
        subtasks = [
            (subtask_status(self._supervisor, job, request), job.source, Ends.of(job))
            for job, request in asked
            if job.subtask.stage != "Stopped"
        ]
        return _Seen(subtasks, relays)


def add_certificate(samples: Samples, path: Path) -> None:
    """When the first certificate in a file of PEM ends."""
    from cryptography import x509  # for daemons with TLS alone

    try:
        end = x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc.timestamp()
    except (OSError, ValueError):
        return  # it is being replaced; the port says so itself
    samples.add("dm_worker_certificate_expiry_timestamp_seconds", end, {})


def member_states(membership: Membership) -> dict[str, int]:
    """DM's number of each member's state: gone, without sources, with sources."""
    living, owners = membership.members.living(), set(membership.ownership.owners(SOURCE).values())
    known = sorted({*living, *membership.members.known()})
    return {name: 0 if name not in living else 2 if name in owners else 1 for name in known}


def add_members(samples: Samples, states: Mapping[str, int], *, answers: bool) -> None:
    """The members as this one knows them, and whether etcd answers it."""
    for name, state in states.items():
        samples.add("dm_master_worker_state", state, {"worker": name})
    samples.add("dm_worker_etcd_answers", answers, {})


def add_cut_overs(samples: Samples, told: Mapping[str, Mapping[str, JSON]]) -> None:
    """How far each is, and whether it rests on an error."""
    for task, status in told.items():
        samples.add("dm_cut_over_state", 1, {"task": task, "state": str(status["state"])})
        samples.add("dm_cut_over_problem", bool(status["problem"]), {"task": task})


def add_subtask(samples: Samples, status: Mapping[str, JSON], source: str, ends: Ends, now: float) -> None:
    """One task on one source, from its subTaskStatus; `now` in seconds since the epoch."""
    labels = {"task": str(status["name"]), "source_id": source}
    samples.add("dm_worker_task_state", STAGES[str(status["stage"])], labels)
    samples.add("dm_worker_task_unit", 1, {**labels, "unit": str(status["unit"])})
    samples.add_all(_OF_SUBTASK, status, labels)
    _add_ends(samples, ends, labels)
    for key, names in (("dump", _OF_DUMP), ("load", _OF_LOAD), ("sync", _OF_SYNC)):
        part = status.get(key)
        if isinstance(part, dict):
            samples.add_all(names, part, labels)
            if "paceHolds" in part:
                samples.add("dm_worker_pace_held", bool(part["paceHolds"]), labels)
                samples.add("dm_worker_pace_held_share", part["paceHeldShare"], labels)
            if key == "sync":
                _add_sync(samples, part, labels)
                _add_shards(samples, part, labels, now)
    branches = status.get("branches")
    if isinstance(branches, list):
        out = [one for one in branches if isinstance(one, dict) and one["phase"] != "dropped"]
        samples.add("dm_worker_tables_aside", sum(len(cast("list[JSON]", one["tables"])) for one in out), labels)
    elif status.get("unit") == "Sync":
        samples.add("dm_worker_tables_aside", 0, labels)
    validation = status.get("validation")
    if isinstance(validation, dict):
        _add_validation(samples, validation, labels)


def _add_validation(samples: Samples, status: Mapping[str, JSON], labels: Mapping[str, str]) -> None:
    names = {
        "newErrors": "dm_validator_validator_error_count", "pendingRows": "dm_validator_pending_rows",
        "pendingBytes": "dm_validator_pending_bytes", "secondsBehindSyncer": "dm_validator_behind_seconds",
    }  # fmt: skip
    samples.add_all(names, status, labels)
    samples.add_position("dm_validator_validator", status.get("validatorBinlog"), labels)


def _add_sync(samples: Samples, sync: Mapping[str, JSON], labels: Mapping[str, str]) -> None:
    samples.add("dm_syncer_replication_lag_gauge", sync.get("lagSeconds", sync.get("secondsBehindMaster")), labels)
    samples.add("dm_syncer_synced", sync.get("synced"), labels)
    if "blockingDDLSeconds" in sync:
        samples.add("dm_syncer_ddl_seconds", sync["blockingDDLSeconds"] or 0, labels)  # None when none runs
    order = sync.get("mergeOrder")
    if isinstance(order, dict):
        samples.add("dm_syncer_late_transactions_total", order["lateTransactions"], labels)
    samples.add("dm_syncer_binlog_kept_seconds", sync.get("binlogKeptSeconds") or None, labels)
    compared = sync.get("compared")
    verdicts = (
        Counter(str(one["verdict"]) for one in compared if isinstance(one, dict)) if isinstance(compared, list) else {}
    )
    for verdict in ("equal", "different"):
        samples.add("dm_syncer_compared_tables", verdicts.get(verdict, 0), {**labels, "verdict": verdict})
    samples.add("dm_syncer_safe_mode", bool(sync.get("safeMode")), labels)
    for node in ("master", "syncer"):
        samples.add_position("dm_syncer", sync.get(f"{node}Binlog"), {**labels, "node": node})
    tables = sync.get("tables")
    for table in tables if isinstance(tables, list) else []:
        if isinstance(table, dict):
            schema = str(table["schema"])
            where = {"target_schema": schema, "target_table": str(table["table"]).removeprefix(f"{schema}.")}
            for key, kind in _ROWS.items():
                samples.add("dm_syncer_finished_jobs_total", table[key], {**labels, **where, "type": kind})


def _add_shards(samples: Samples, sync: Mapping[str, JSON], labels: Mapping[str, str], now: float) -> None:
    """The shards that wait, from `unresolvedGroups`; other tasks than those with a `shard-mode` have none."""
    groups = sync.get("unresolvedGroups")
    if not isinstance(groups, list):
        return
    waited = 0.0
    for group in groups:
        if isinstance(group, dict):
            missing = [group.get(name) for name in ("unsynced", "othersUnsynced")]
            count = sum(len(each) for each in missing if isinstance(each, list))
            samples.add("dm_syncer_unsynced_table_number", count, {**labels, "table": str(group["target"])})
            waited = max(waited, now - datetime.fromisoformat(str(group["since"])).timestamp())
    samples.add("dm_syncer_shard_lock_resolving", bool(groups), labels)
    samples.add("dm_syncer_shard_ddl_wait_seconds", waited, labels)


def add_relay(samples: Samples, relay: Mapping[str, JSON], source: str, ends: Ends) -> None:
    """The relay of one source, from its relayStatus."""
    labels = {"source_id": source}
    samples.add("dm_worker_relay_state", STAGES[str(relay["stage"])], labels)
    samples.add("dm_relay_source_answers", relay.get("sourceAnswers"), labels)
    _add_ends(samples, ends, {**labels, "task": ""})
    for node in ("master", "relay"):
        samples.add_position("dm_relay", relay.get(f"{node}Binlog"), {**labels, "node": node})
    uuid, _, number = str(relay.get("relaySubDir", "")).rpartition(".")
    if is_decimal(number):
        samples.add("dm_relay_sub_dir_index", int(number), {**labels, "node": "relay", "uuid": uuid})
    samples.add("dm_relay_binlog_kept_seconds", relay.get("binlogKeptSeconds") or None, labels)
    samples.add("dm_relay_binlog_purge_timestamp_seconds", relay.get("binlogPurgedAt"), labels)
    storage = relay.get("storage")
    if isinstance(storage, dict):
        samples.add("dm_relay_waits_for_space", storage.get("waitsForSpace"), labels)


def add_space(samples: Samples, directory: Path, source: str) -> None:
    """The disk of a relay's files."""
    try:
        usage = shutil.disk_usage(directory)
    except OSError:
        return  # not there yet, or its disk is gone: what nobody knows has no sample, and the relay's error says why
    samples.add("dm_relay_space", usage.total, {"source_id": source, "type": "capacity"})
    samples.add("dm_relay_space", usage.free, {"source_id": source, "type": "available"})


def _add_ends(samples: Samples, ends: Ends, labels: Mapping[str, str]) -> None:
    # DM's counters of dumps and loads don't say whether the error is resumable. Those that do begin with both at 0:
    # a counter that is not there before it counts has no increase for Prometheus.
    exits: Counter[tuple[str, str]] = Counter()
    codes: Counter[tuple[str, int]] = Counter()
    for name in (_EXITS[unit] for unit in ends.units):
        exits.update({(name, text): 0 for text in ("true", "false")})
    for (unit, code, resumable), count in ends.failures.items():
        codes[unit, code] += count
        if unit in _EXITS:
            exits[_EXITS[unit], str(resumable).lower()] += count
    for (unit, code), count in codes.items():
        samples.add("dm_worker_error_count", count, {**labels, "unit": unit, "code": str(code)})
    for (name, resumable_err), count in exits.items():
        if "resumable_err" in FAMILIES[name].labels:
            samples.add(name, count, {**labels, "resumable_err": resumable_err})
    for name in {name for name, _ in exits if "resumable_err" not in FAMILIES[name].labels}:
        samples.add(name, exits[name, "true"] + exits[name, "false"], labels)


def _metric(family: Family) -> Metric:
    makes: Mapping[str, Callable[[str, str], Metric]] = {
        "gauge": GaugeMetricFamily, "counter": CounterMetricFamily, "untyped": UnknownMetricFamily,
    }  # fmt: skip
    return makes[family.kind](family.name, family.meaning)


def _number(value: JSON) -> float | None:
    """The number in a status, which may stand there as DM writes it: "154", "37.50 %"."""
    if value is None or isinstance(value, list | dict):
        return None
    if isinstance(value, str) and value.endswith("%"):
        return round(float(value.rstrip("% ")) / 100, 6)
    return float(value)
