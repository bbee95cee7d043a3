"""The verbs of `dmctl validation`, in DM's JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, cast

from dm.config import SubtaskConfig
from dm.errors import DMError
from dm.progress.validator_errors import ErrorKind, ErrorState, StoredError
from dm.task.start_and_end import StartTime, before_all_binlogs
from dm.unit import JSON
from dm.verbs import validation as declared
from dm.worker.job import REST_SECONDS, Job
from dm.worker.verb_work import Answer, VerbWork, does

STATES: Final[dict[str, tuple[ErrorState, ...]]] = {
    "all": ("new", "ignored", "resolved"),
    "ignored": ("ignored",),
    "unprocessed": ("new",),
}
_STATE_NAMES: Final[dict[ErrorState, str]] = {"new": "NewErr", "ignored": "IgnoredErr", "resolved": "ResolvedErr"}
_KIND_NAMES: Final[dict[ErrorKind, str]] = {
    "deleted": "Deleted rows exist",
    "missing": "Expected rows not exist",
    "different": "Column data not matched",
}


class ValidationVerbs(VerbWork):
    """Start, stop and update validators; show and change what they have found."""

    @does(declared.StartValidation)
    def start(self, asked: declared.StartValidation) -> Answer:
        """Of one task, or of all when none is named."""
        task, sources, mode = asked.task, asked.sources, asked.mode
        when = None if asked.start_time is None else StartTime.parse(asked.start_time)
        explicit = mode is not None or when is not None
        targets = self._loop.call(lambda: self._to_start(task, sources, explicit=explicit))
        self._demand_joined([config for config, _ in targets])
        places = {}
        warnings: list[JSON] = []
        for config, relay in targets:
            if when is not None:
                place = self._servers.validations.beginning(config, when, relay)
                places[config.task, config.source_id] = place.position
                if not place.known:
                    warnings.append(before_all_binlogs(config.source_id, place.position))

        def begin() -> None:
            validators = self._supervisor.validators
            for config, _ in targets:
                name = (config.task, config.source_id)
                if validators.get(*name) is None:
                    validators.begin(*name, mode or "full", places.get(name))
                else:
                    validators.let_run(*name, running=True)

        self._loop.call(begin)
        return {"msg": "success", "warnings": warnings}

    def _to_start(self, task: str, sources: Sequence[str], *, explicit: bool) -> list[tuple[SubtaskConfig, Path]]:
        validators, found, running = self._supervisor.validators, [], 0
        for job in self._meant(task, sources):
            assert job.task is not None
            config = self._supervisor.subtask_config(job.task, job.source)
            if config.shard_mode:
                raise DMError("validator-with-shards", task=job.task)
            known = validators.get(job.task, job.source)
            if known is not None and known.record.running and known.job.subtask.stage != "Paused":
                running += 1
                continue
            if known is not None and explicit:
                raise DMError("validator-begun-before", task=job.task, source=job.source)
            found.append((config, self._supervisor.relay_directory(job.source)))
        if running and not found:
            raise DMError("validator-running")
        return found

    def _demand_joined(self, configs: Sequence[SubtaskConfig]) -> None:
        """Raise DMError while tables are loaded beside a task: their rows come later than a validator looks."""
        for config in configs:
            one = {config.source_id: config}
            if config.syncer.on_error == "table":
                raise DMError("validator-with-quarantine", task=config.task)
            if self._servers.joins.joining(one) or self._servers.branches.listed(one):
                raise DMError("validator-while-joining", task=config.task, sources=config.source_id)

    @does(declared.StopValidation)
    def stop(self, asked: declared.StopValidation) -> Answer:
        """It answers when the validators rest."""
        task, sources = asked.task, asked.sources

        def stop() -> list[Job]:
            validators, jobs = self._supervisor.validators, []
            known = 0
            for job in self._meant(task, sources):
                assert job.task is not None
                found = validators.get(job.task, job.source)
                if found is None:
                    continue
                known += 1
                if found.record.running:
                    validators.let_run(job.task, job.source, running=False)
                    jobs.append(found.job)
            if not known:
                raise DMError("validator-not-there", task=task or "of this daemon")
            if not jobs:
                raise DMError("validator-stopped")
            return jobs

        jobs = self._loop.call(stop)
        if not self._loop.wait_until(lambda: all(job.subtask.stage == "Stopped" for job in jobs), REST_SECONDS):
            late = sorted({str(job.task) for job in jobs if job.subtask.stage != "Stopped"})
            raise DMError("task-busy", task=", ".join(late), stage="Stopped", seconds=REST_SECONDS)
        return {"msg": "success"}

    @does(declared.ValidationStatus)
    def status(self, asked: declared.ValidationStatus) -> Answer:
        """What each validator says, and its tables."""
        task = asked.task
        configs = self._loop.call(lambda: self._configs(task))
        seen = self._loop.call(lambda: [(one, self._supervisor.validators.status(task, one)) for one in configs])
        validators: list[JSON] = []
        tables: list[JSON] = []
        for source, status in seen:
            if status is None:
                continue
            config = configs[source]
            if "validatorBinlog" not in status:
                status = {**status, **self._servers.validations.stored_status(config)}
            else:
                status = {**status, **self._servers.validations.counted(config)}
            self._keep_count(config, status)
            validators.append(status)
            tables += [
                {
                    "source": source, "srcTable": each.source.sql, "dstTable": each.target.sql, "stage": each.stage,
                    "message": each.message,
                }
                for each in self._servers.validations.tables(config)
                if asked.table_stage in (None, each.stage.lower())
            ]  # fmt: skip
        if not validators:
            raise DMError("validator-not-there", task=task)
        return {"validators": validators, "tableStatuses": tables}

    @does(declared.ShowErrors)
    def show_errors(self, asked: declared.ShowErrors) -> Answer:
        """In the order of their numbers."""
        states = STATES[asked.state]
        configs = self._known(asked.task)
        found = [error for config in configs.values() for error in self._servers.validations.errors(config, states)]
        return {"error": [_shown(each) for each in sorted(found, key=lambda e: e.number)]}

    @does(declared.IgnoreError, declared.ResolveError, declared.ClearError)
    def change_errors(self, asked: declared.ChangedError) -> Answer:
        """One of them, or all without a number."""
        task, number = asked.task, asked.number
        known = self._known(task).values()
        changed = sum(self._servers.validations.change(config, asked.operation, number) for config in known)
        for config in known:
            self._keep_count(config, self._servers.validations.counted(config))
        if number is not None and not changed:
            raise DMError("validator-error-unknown", task=task, number=number)
        return {"changed": changed}

    @does(declared.UpdateValidation)
    def update(self, asked: declared.UpdateValidation) -> Answer:
        """Where business moves to the target."""
        configs = self._known(asked.task)
        meant = [self._of(configs, asked.task, source) for source in asked.sources] or list(configs.values())
        for config in meant:
            self._servers.validations.cut_over(config, asked.cutover_binlog_pos, asked.cutover_binlog_gtid)
        return {}

    def _keep_count(self, config: SubtaskConfig, status: Mapping[str, JSON]) -> None:
        """What the target has just said: `query-status` shows it of a validator that rests, without asking."""
        name, new = (config.task, config.source_id), status.get("newErrors")
        self._loop.call(lambda: self._supervisor.validators.keep_count(*name, new))

    # whose

    def _meant(self, task: str, sources: Sequence[str]) -> list[Job]:
        """The subtasks that sync, of a task or of all; on the loop's thread. Raises DMError."""
        supervisor = self._supervisor
        if task:
            jobs = supervisor.jobs(task, sources)
        else:
            every = [job for one in supervisor.tasks.values() for job in one.jobs.values()]
            jobs = [job for job in every if not sources or job.source in sources]
        syncing = [job for job in jobs if "Sync" in job.subtask.units]
        if task and not syncing:
            config = supervisor.task(task).config
            mode = "unknown" if isinstance(config, DMError) else config.task_mode
            raise DMError("validator-without-sync", task=task, mode=mode)
        return syncing

    def _configs(self, task: str) -> dict[str, SubtaskConfig]:
        """A task on each of its sources; on the loop's thread."""
        supervisor = self._supervisor
        return {source: supervisor.subtask_config(task, source) for source in supervisor.task(task).jobs}

    def _known(self, task: str) -> dict[str, SubtaskConfig]:
        """The same, of those that have a validator; raises DMError where none has."""

        def known() -> dict[str, SubtaskConfig]:
            validators = self._supervisor.validators
            return {name: one for name, one in self._configs(task).items() if validators.get(task, name) is not None}

        found = self._loop.call(known)
        if not found:
            raise DMError("validator-not-there", task=task)
        return found

    @staticmethod
    def _of(configs: dict[str, SubtaskConfig], task: str, source: str) -> SubtaskConfig:
        if source not in configs:
            raise DMError("task-not-on-source", task=task, source=source, sources=", ".join(configs))
        return configs[source]


def _shown(error: StoredError) -> JSON:
    row = error.row
    return {
        "id": str(error.number),
        "source": error.source_id,
        "srcTable": row.source.sql,
        "srcData": _values(row.data),
        "dstTable": row.target.sql,
        "dstData": _values(row.target_data),
        "errorType": _KIND_NAMES[row.kind],
        "status": _STATE_NAMES[error.state],
        "time": error.time,
        "message": row.message,
        "fix": row.fix,
    }


def _values(data: str) -> str:
    """The values in DM's form; DM shows nothing of a row that is not there."""
    found = cast("dict[str, str] | None", json.loads(data))
    return "[]" if found is None else f"[{', '.join(found.values())}]"
