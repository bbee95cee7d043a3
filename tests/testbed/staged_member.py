"""A member of a cluster in this process whose units are staged: for many sources, without any server but etcd."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import cast

from dm.clock import SystemClock
from dm.cluster.membership import ClusterOptions, Membership
from dm.worker.forwarding import Forwarding
from dm.worker.home import Home
from dm.worker.hosts import Hosts
from dm.worker.loop import Loop
from dm.worker.operations import Operations
from dm.worker.registry import Registry, SubtaskRecord
from dm.worker.several_hosts import shared_registry
from dm.worker.supervisor import Supervisor
from tests.testbed.etcd import EtcdServer
from tests.testbed.staged_daemon import StagedHosts, config_file, no_servers, source_text, task_text


class StagedMember:
    """Everything of a daemon but its processes and its port."""

    def __init__(self, etcd: EtcdServer, prefix: str, name: str, directory: Path, lease_seconds: int) -> None:
        self.name = name
        self._stack = ExitStack()
        home, clock = Home(directory / name), SystemClock()
        home.create()
        self.membership = Membership(
            ClusterOptions(etcd.access(), prefix, name, f"{name}:8262"), home.cluster_mark, "1.0.0", clock
        )
        self.membership.lease._seconds = lease_seconds
        self.membership.join()
        registry = shared_registry(self.membership, home)
        self._stack.callback(registry.close)
        self.loop = Loop(clock)
        hosts = StagedHosts(self.loop.post)
        self.supervisor = Supervisor(home, registry, cast(Hosts, hosts), self.loop.post, clock, lambda _: "Sync")
        self.supervisor.alone, self.supervisor.worker = False, name
        self.loop.start(self.supervisor.tick)
        self._stack.callback(self.loop.end)
        cluster = (self.membership, Forwarding(self.membership, None))
        self.operations = Operations(self.loop, self.supervisor, no_servers(), lambda: None, cluster)
        self.operations._taken = lambda sources: None  # type: ignore[method-assign]  # no target is asked for cut-overs
        self.operations.take_up()

    def running(self) -> set[tuple[str, str]]:
        """The subtasks that run here."""
        return self.loop.call(
            lambda: {
                (name, source)
                for name, task in self.supervisor.tasks.items()
                for source, job in task.jobs.items()
                if job.host_run is not None
            }
        )

    def end(self, *, clean: bool = True) -> None:
        """Stop; one that is not clean leaves its lease as it is."""
        self.operations.end()
        self._stack.close()
        if clean:
            self.membership.leave()
        else:
            self.membership.lease._stop.set()
            self.membership.mirror.end()
            self.membership.etcd.close()


def registry_of(home: Home, sources: int, tasks_each: int) -> None:
    """Many sources, each with tasks of its own, in the registry of a single host."""
    home.create()
    registry = Registry(home.registry)
    names = [f"source-{number:03}" for number in range(sources)]
    registry.put_sources({name: config_file(home.directory, f"{name}.yaml", source_text(name)) for name in names})
    for name in names:
        for number in range(tasks_each):
            task = f"{name}-{number}"
            registry.put_task(task, config_file(home.directory, f"{task}.yaml", task_text(task, [name])), {name: None})
            registry.record(task, name, SubtaskRecord("running", "Running", "Sync", None))
    registry.close()
