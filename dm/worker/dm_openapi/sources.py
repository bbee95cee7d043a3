"""DM's OpenAPI: sources and their relays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, cast

from dm.config import SourceConfig
from dm.config.secret import MASK
from dm.errors import DMError
from dm.verbs.cluster import TransferSource
from dm.verbs.declaration import CHANGES, OPERATES, READS
from dm.verbs.relays import PurgeRelay, StartRelay, StopRelay
from dm.verbs.sources import CreateSources, ShowSources, StopSources, UpdateSources
from dm.verbs.tasks import PauseTask, ResumeTask, StopTask
from dm.worker.dm_openapi.operation import OpenAPIRequests, operation
from dm.worker.dm_openapi.source_file import source_as_file, source_as_shape, with_secrets
from dm.worker.dm_openapi.source_shapes import (
    CreateSourceRequest,
    DisableRelayRequest,
    DMSource,
    EnableRelayRequest,
    PurgeRelayRequest,
    RelayConfig,
    RelayStatus,
    SourceList,
    SourceStatus,
    SourceStatusList,
    UpdateSourceRequest,
    WorkerNameRequest,
)
from dm.worker.dm_openapi.task_file import invalid


def error_texts(result: object) -> str | None:
    """The errors of a result of `query-status`, one a line."""
    errors = result.get("errors") if isinstance(result, Mapping) else None
    lines = []
    for each in errors or ():
        head = f"[code={each['ErrCode']}:class={each['ErrClass']}:scope={each['ErrScope']}:level={each['ErrLevel']}]"
        said = {"Message": each["Message"], "RawCause": each["RawCause"], "Workaround": each["Workaround"]}
        lines.append(", ".join([head, *(f"{key}: {text}" for key, text in said.items() if text)]))
    return "\n".join(lines) or None


class SourceRequests(OpenAPIRequests):
    """Sources."""

    tag = "source"

    @operation("POST sources", CHANGES, DMSource, status=201)
    def create_source(self, body: CreateSourceRequest) -> DMSource:
        """Make a source known."""
        asked, wish = body.source, body.worker_name or ""
        if wish and self._means.others is None:
            self._demand_worker("a source on worker", asked.source_name, wish)
        self._do(CreateSources(files=(self._file(f"source {asked.source_name}", source_as_file(asked)),), worker=wish))
        self._registry.set_enabled(asked.source_name, enabled=asked.enable)
        return self._told(asked.source_name)

    @operation("GET sources", READS, SourceList)
    def get_source_list(self, with_status: bool = False, enable_relay: bool | None = None) -> SourceList:
        """List the sources."""
        names = self._loop.call(lambda: sorted(self._supervisor.sources))
        if enable_relay is not None:
            running = self._loop.call(self._relays_that_run)
            names = [name for name in names if (name in running) == enable_relay]
        told = [self._told(name, with_status=with_status) for name in names]
        return SourceList(total=len(told), data=told)

    def _relays_that_run(self) -> set[str]:
        return {name for name in self._supervisor.sources if self._supervisor.relay_runs(name)}

    def _tasks_of(self, source: str) -> dict[str, str]:
        """The tasks on a source, with their stages there."""

        def look() -> dict[str, str]:
            known = self._supervisor.tasks
            return {task: known[task].jobs[source].subtask.stage for task in self._supervisor.tasks_of(source)}

        here = self._loop.call(look)
        if self._supervisor.alone:
            return here
        return {task: seen.stage for (task, of), seen in self._registry.subtasks().items() if of == source} | here

    @operation("GET sources/{source_name}", READS, DMSource, missing="source-unknown")
    def get_source(self, source_name: str, with_status: bool = False) -> DMSource:
        """Show a source."""
        return self._told(source_name, with_status=with_status)

    @operation("PUT sources/{source_name}", CHANGES, DMSource)
    def update_source(self, source_name: str, body: UpdateSourceRequest) -> DMSource:
        """Give a source another address, login or relay. No task may run on it."""
        asked = body.source
        if asked.source_name != source_name:
            raise invalid(f"the path names source {source_name}, the body {asked.source_name}", "give one name")
        self._update(asked)
        if asked.enable:
            self.enable_source(source_name)
        else:
            self.disable_source(source_name)
        return self._told(source_name)

    def _update(self, source: DMSource) -> None:
        known = source_as_shape(self._config(source.source_name))
        if keys := known.keys_without_field:
            instead = "dmctl operate-source update <file>"
            raise DMError(
                "openapi-without-field", what=f"source {source.source_name}", keys=", ".join(keys), instead=instead
            )
        text = source_as_file(with_secrets(source, known))
        self._do(UpdateSources(files=(self._file(f"source {source.source_name}", text),)))

    def _prepared(self) -> dict[str, Sequence[str]]:
        """The sources of each task that was not started yet; a file that is no longer understood names none."""
        found: dict[str, Sequence[str]] = {}
        for name, file in self._registry.prepared_tasks().items():
            with suppress(DMError):
                found[name] = self._read.task(file, None)[0].source_ids
        return found

    @operation("DELETE sources/{source_name}", CHANGES, status=204)
    def delete_source(self, source_name: str, force: bool = False) -> None:
        """Forget a source; with `force` its tasks too."""
        self._config_or_error(source_name)
        prepared = {name: ids for name, ids in self._prepared().items() if source_name in ids}
        kept = [name for name, sources in prepared.items() if not force or len(sources) > 1]
        if kept:
            raise DMError("source-in-use", source=source_name, tasks=", ".join(kept))
        if force:
            for task in self._tasks_of(source_name):
                self._do(StopTask(task=task, sources=(source_name,), remove_meta=False))
        self._do(StopSources(names=(), sources=(source_name,)))
        for name in prepared:
            self._registry.put_prepared_task(name, None)

    @operation("GET sources/{source_name}/status", READS, SourceStatusList)
    def get_source_status(self, source_name: str) -> SourceStatusList:
        """Tell how a source and its relay are."""
        return SourceStatusList(total=1, data=[self._status(source_name)])

    @operation("POST sources/{source_name}/enable", OPERATES)
    def enable_source(self, source_name: str) -> None:
        """Let tasks be started on a source, and have those go on that rest there."""
        self._config_or_error(source_name)
        if source_name not in self._registry.disabled_sources():
            return
        self._registry.set_enabled(source_name, enabled=True)
        for task in self._resting(source_name, "Paused"):
            self._do(ResumeTask(task=task, sources=(source_name,)))

    @operation("POST sources/{source_name}/disable", OPERATES)
    def disable_source(self, source_name: str) -> None:
        """Have the tasks on a source rest, and let none be started there."""
        self._config_or_error(source_name)
        self._registry.set_enabled(source_name, enabled=False)
        for task in self._resting(source_name, "Running"):
            self._do(PauseTask(task=task, sources=(source_name,)))

    def _resting(self, source: str, stage: str) -> list[str]:
        return [task for task, found in self._tasks_of(source).items() if found == stage]

    @operation("POST sources/{source_name}/transfer", CHANGES)
    def transfer_source(self, source_name: str, body: WorkerNameRequest) -> None:
        """Move a source to another worker."""
        self._config_or_error(source_name)
        if self._means.others is None:
            self._demand_worker(f"the transfer of source {source_name} to worker", source_name, body.worker_name)
        else:
            self._do(TransferSource(source=source_name, member=body.worker_name))

    @operation("POST sources/{source_name}/relay/enable", OPERATES)
    def enable_relay(self, source_name: str, body: EnableRelayRequest | None = None) -> None:
        """Start the relay of a source; a place to begin or a directory becomes part of its file."""
        said = body or EnableRelayRequest()
        self._demand_worker("a relay on worker", source_name, *(said.worker_name_list or ()))
        if said.changes:
            source = source_as_shape(self._config(source_name))
            known = source.relay_config or RelayConfig()
            given = said.model_dump(exclude={"worker_name_list"}, exclude_none=True)
            if (wanted := known.model_copy(update=given)) != known:
                self._update(source.model_copy(update={"relay_config": wanted}))
        self._do(StartRelay(source=source_name))

    @operation("POST sources/{source_name}/relay/disable", OPERATES)
    def disable_relay(self, source_name: str, body: DisableRelayRequest | None = None) -> None:
        """Stop the relay of a source."""
        self._demand_worker("a relay on worker", source_name, *((body and body.worker_name_list) or ()))
        self._do(StopRelay(source=source_name))

    @operation("POST sources/{source_name}/relay/purge", CHANGES)
    def purge_relay(self, source_name: str, body: PurgeRelayRequest) -> None:
        """Remove relay files that no task needs any more."""
        self._do(PurgeRelay(source=source_name, filename=body.relay_binlog_name, sub_dir=body.relay_dir or ""))

    @operation("GET sources/{source_name}/schemas", READS, list[str])
    def get_source_schema_list(self, source_name: str) -> list[str]:
        """List the schemas that a source's server has."""
        return self._means.servers.listing.schemas(self._config(source_name))

    @operation("GET sources/{source_name}/schemas/{schema_name}", READS, list[str])
    def get_source_table_list(self, source_name: str, schema_name: str) -> list[str]:
        """List the tables of a schema at a source's server."""
        tables = self._means.servers.listing.tables(self._config(source_name))
        return [name.table for name in tables if name.schema == schema_name]

    def _config_or_error(self, name: str) -> SourceConfig | DMError:
        return self._loop.call(lambda: self._supervisor.source(name).config)

    def _config(self, name: str) -> SourceConfig:
        config = self._config_or_error(name)
        if isinstance(config, DMError):
            raise config
        return config

    def _told(self, name: str, *, with_status: bool = False) -> DMSource:
        """As an answer has it: the password and the certificates hidden."""
        config = self._config_or_error(name)
        if isinstance(config, DMError):
            problem = [f"all: its file can't be understood ({config.message})"]
            told = DMSource(source_name=name, host="", port=0, user="", keys_without_field=problem)
        else:
            told = source_as_shape(config)
        shown: dict[str, Any] = {
            "password": MASK, "security": None, "enable": name not in self._registry.disabled_sources(),
        }  # fmt: skip
        if with_status:
            shown["task_name_list"] = [*self._tasks_of(name)]
            shown["status_list"] = [self._status(name)]
        return told.model_copy(update=shown)

    def _status(self, name: str) -> SourceStatus:
        lines = cast("list[dict[str, Any]]", self._do(ShowSources(source=(name,)))["sources"])
        relay, problem = lines[0]["relayStatus"], lines[0]["problem"]
        error = None if problem is None else str(problem["Message"])
        if relay is None:
            return SourceStatus(source_name=name, worker_name=self._worker(name), error_msg=error)
        return SourceStatus(
            source_name=name,
            worker_name=self._worker(name),
            relay_status=RelayStatus(
                master_binlog=relay["masterBinlog"], master_binlog_gtid=relay["masterBinlogGtid"],
                relay_dir=relay["relaySubDir"], relay_binlog_gtid=relay["relayBinlogGtid"],
                relay_catch_up_master=relay["relayCatchUpMaster"], stage=relay["stage"],
            ),
            error_msg=error or error_texts(relay["result"]),
        )  # fmt: skip
