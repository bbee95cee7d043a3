"""All verbs together, and what a daemon that starts takes up again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import TypeVar

from dm.cluster.membership import Membership
from dm.unit import JSON
from dm.verbs.declaration import Verb
from dm.verbs.every import SUBJECTS
from dm.worker.configuration import ConfigReader
from dm.worker.cutovers import CutOvers
from dm.worker.dm_openapi.every import openapi_requests
from dm.worker.elsewhere import Elsewhere, HeardSubtask, StoredSubtask
from dm.worker.errands import Errands
from dm.worker.forwarding import Forwarding
from dm.worker.history.history import History, Values
from dm.worker.holdings import Holdings
from dm.worker.installed import installed_version
from dm.worker.loop import Loop
from dm.worker.routing import Routing
from dm.worker.supervisor import Supervisor
from dm.worker.taking_up import TakingUp
from dm.worker.verb_work import Means, OtherHosts, Servers, VerbWork, Work, work_of
from dm.worker.verbs.config import ConfigVerbs
from dm.worker.verbs.cutover import CutOverVerbs

T = TypeVar("T")


class Operations:
    """The verbs of one daemon; `shutdown` asks it to end."""

    def __init__(
        self,
        loop: Loop,
        supervisor: Supervisor,
        servers: Servers,
        shutdown: Callable[[], None],
        cluster: tuple[Membership, Forwarding] | None = None,
    ) -> None:
        self._loop = loop
        self._supervisor = supervisor
        self._read = ConfigReader(supervisor.home.secret_key)
        self.taking_up = TakingUp(loop, supervisor, self._read, servers.hold_place)
        errands, self._cut_overs = Errands(loop, supervisor.home.log_of), CutOvers(supervisor.home.work)
        self.history = History(supervisor.home.history, supervisor.clock)
        supervisor.watch(self.history.stage, self.history.heard)
        others = None if cluster is None else OtherHosts(cluster[0], self._holdings(cluster[0]), cluster[1])
        self._elsewhere = None if others is None else Elsewhere(others, supervisor.registry, supervisor.clock)
        self.holdings = None if others is None else others.holdings
        means = Means(
            loop, supervisor, servers, self._read, errands, self._cut_overs, self.history, shutdown, others=others
        )
        self.config, self._cut_over = ConfigVerbs(means), CutOverVerbs(means)
        self.work: Mapping[type[Verb], Work] = work_of(*_owners(means))
        self.routed = self.of_members = self.work
        if others is not None:
            routing = Routing(means)
            self.routed, self.of_members = routing.routed(self.work), routing.settled(self.work)
        self.openapi = openapi_requests(means, self.routed)

    def take_up(self) -> None:
        """Bring back what the registry holds, each subtask as it is wanted."""
        self.config.take_up()
        self.history.start(installed_version(), lambda: self._loop.call(self._values))
        if self.holdings is None:
            self.taking_up.take_up()
            self._cut_overs.take_up(self._cut_over.driver)
        else:
            self.holdings.tell(self._taken)
            self.holdings.begin()

    def _taken(self, sources: Sequence[str]) -> None:
        """Go on with cut-overs of tasks whose sources have come here, all of them; another host may have begun them."""
        subtasks = [*self._supervisor.registry.subtasks()]
        mine = self._loop.call(lambda: {name for name, source in self._supervisor.sources.items() if source.here})
        tasks = {task for task, source in subtasks if source in sources}
        whole = sorted(task for task in tasks if all(source in mine for of, source in subtasks if of == task))
        go_on = partial(self._cut_overs.go_on, self._cut_over.driver, self._cut_over.unfinished)
        threading.Thread(target=lambda: [go_on(task) for task in whole], name="cut-overs", daemon=True).start()

    def _holdings(self, membership: Membership) -> Holdings:
        supervisor = self._supervisor
        return Holdings(membership, self.taking_up, self._loop, supervisor, supervisor.clock)

    def look(self, at: Callable[[Supervisor], T]) -> T:
        """What the supervisor knows, from its thread."""
        return self._loop.call(lambda: at(self._supervisor))

    @property
    def worker(self) -> str:
        """This host's name."""
        return self._supervisor.worker

    def elsewhere(self, task: str = "") -> tuple[list[HeardSubtask], list[StoredSubtask]]:
        """Of all tasks, or one, the subtasks that other members run: told by them, or as they were stored last."""
        return ([], []) if self._elsewhere is None else self._elsewhere.look(task)

    def cut_overs(self) -> Mapping[str, Mapping[str, JSON]]:
        """What is known of each cut-over, by task."""
        return self._cut_overs.all_told()

    def _values(self) -> Values:
        tasks = self._supervisor.tasks.items()
        return self.history.values({(name, source): job for name, task in tasks for source, job in task.jobs.items()})

    def end(self) -> None:
        """Leave cut-overs to the next daemon, and take nothing up any more."""
        if self.holdings is not None:
            self.holdings.end()
        self._cut_overs.end()
        self.history.end()


def _owners(means: Means) -> Iterator[VerbWork]:
    """Those of the files that are named like the declarations'."""
    for subject in SUBJECTS:
        module = import_module(f"dm.worker.verbs.{subject}")
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, VerbWork) and found.__module__ == module.__name__:
                yield found(means)
