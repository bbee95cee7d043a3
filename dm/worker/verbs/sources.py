"""The verbs of `dmctl operate-source`: sources are made known, changed, shown and forgotten.

A file is read, its server asked and its directory tried on the caller's thread; then, on the loop's, it is looked
again whether the change is still possible, since another verb may have come between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import structlog

from dm.config import SourceConfig
from dm.errors import DMError
from dm.relay.purge import Removed, relay_size, remove_relay
from dm.unit import JSON
from dm.verbs.declaration import ConfigFile
from dm.verbs.sources import CreateSources, ShowSources, StopSources, UpdateSources
from dm.worker.configuration import demand_relay_directory
from dm.worker.hosts import PATIENCE_SECONDS
from dm.worker.inventory import Source
from dm.worker.query_status import source_line
from dm.worker.verb_work import Answer, VerbWork, demand_member, does


class SourceVerbs(VerbWork):
    """What a person does with sources."""

    @does(CreateSources)
    def create(self, asked: CreateSources) -> Answer:
        """All files or none."""
        return self._put(asked.files, new=True, wish=asked.worker)

    @does(UpdateSources)
    def update(self, asked: UpdateSources) -> Answer:
        """Only while no task runs on the source."""
        return self._put(asked.files, new=False)

    def _put(self, files: Sequence[ConfigFile], *, new: bool, wish: str = "") -> Answer:
        wished = demand_member(self._means, wish) if wish else []
        configs: dict[str, SourceConfig] = {}
        by_name: dict[str, ConfigFile] = {}
        for file in files:
            config = self._read.source(file)
            if config.source_id in configs:
                raise DMError("source-exists", source=config.source_id)
            configs[config.source_id], by_name[config.source_id] = config, file
        self._loop.call(lambda: self._may_put(configs, new=new))
        warnings: list[JSON] = [*wished, *(str(each) for config in configs.values() for each in config.warnings)]
        for config in configs.values():
            warnings += self._servers.verify_source(config)

        def put() -> list[JSON]:
            self._may_put(configs, new=new)
            for name, config in configs.items():
                self._supervisor.hold_files(name, Source(by_name[name], config))
            self._supervisor.registry.put_sources(by_name)
            for name, config in configs.items():
                self._supervisor.add_source(name, Source(by_name[name], config))
            return [source_line(self._supervisor, name) for name in configs]

        with self._exclusion.sources:
            for name, config in configs.items():
                if config.enable_relay or config.relay_dir:
                    source = Source(by_name[name], config)
                    demand_relay_directory(name, self._supervisor.relay_directory(name, source))
            if new and self._means.others is not None:
                for name in configs:  # a wish of an earlier source of this name is over
                    self._means.others.holdings.wish(name, wish)
            return {"sources": self._loop.call(put), "warnings": warnings}

    def _may_put(self, configs: Mapping[str, SourceConfig], *, new: bool) -> None:
        for name in configs:
            if new and name in self._supervisor.sources:
                raise DMError("source-exists", source=name)
            if not new:
                self._supervisor.source(name)
                running = [
                    task
                    for task in self._supervisor.tasks_of(name)
                    if self._supervisor.tasks[task].jobs[name].subtask.stage
                    in ("New", "Running", "Pausing", "Stopping")
                ]
                if running:
                    raise DMError("source-in-use", source=name, tasks=", ".join(running))

    @does(StopSources)
    def stop(self, asked: StopSources) -> Answer:
        """The source is forgotten at once; then its relay files go, unless they are to be kept.

        What can't be removed is said with the directory, and is no reason to know the source again.
        """
        names = [*(self._read.source(file).source_id for file in asked.files), *asked.sources]

        def remove() -> dict[str, Path]:
            for name in names:
                self._supervisor.source(name)
                if tasks := self._supervisor.tasks_of(name):
                    raise DMError("source-in-use", source=name, tasks=", ".join(tasks))
            directories = {name: self._supervisor.relay_directory(name) for name in names}
            for name in names:
                self._supervisor.remove_source(name)
            return directories

        lines: list[JSON] = []
        with self._exclusion.sources:
            for name, directory in self._loop.call(remove).items():
                relay = _kept(directory) if asked.keep_relay else self._without_relay(name, directory)
                lines.append({"result": True, "msg": "", "source": name, **relay})
        return {"sources": lines}

    def _without_relay(self, name: str, directory: Path) -> Answer:
        hosts = self._supervisor.hosts
        self._loop.wait_until(lambda: not hosts.busy(f"relay:{name}"), PATIENCE_SECONDS)
        try:
            return {**remove_relay(directory).to_json(), "problem": ""}
        except DMError as error:
            structlog.get_logger().warning("relay files stay", source=name, directory=str(directory), error=error)
            problem = f"{error.message}: {error.cause}" if error.cause else error.message
            return {**Removed(directory).to_json(), "problem": problem}

    @does(ShowSources)
    def show(self, asked: ShowSources) -> Answer:
        """Those that are named, or all."""

        def show() -> list[JSON]:
            wanted = list(asked.source) or sorted(self._supervisor.sources)
            for name in wanted:
                self._supervisor.source(name)
            return [source_line(self._supervisor, name) for name in wanted]

        return {"sources": self._loop.call(show)}


def _kept(directory: Path) -> Answer:
    files, size = relay_size(directory)
    return {"relayDirectory": str(directory), "keptFiles": files, "keptBytes": str(size)}
