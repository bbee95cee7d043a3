"""Any member takes any verb: here is decided which member does the work, or which several, and what they say together.

Which sources a verb concerns follows from its parameters: a source, a task, a task on some sources, files. The owner of
these sources does the work. Where several own them, the verb's declaration decides by its `Division`:

- EACH_ITS_SOURCES: each owner does its part, named by the verb's sources. Their lines become one answer. A member that
  does not answer, or refuses, has lines that say so. The verb fails if no member has done its part.
- EACH_OWNER: every owner does it, or tells what it has of the task, and the lists become one.
- ONE_SOURCE: one of the task's sources is meant, and has to be named.
- ONE_OWNER: it looks at a task as a whole, and at what only the hosts have: streams, relay files. It is refused with
  the way out: bring its sources to one member. A heal is one of these: a table may have rows of several sources, which
  are healed together. One that names a source is done by the owner. A call that asks servers alone is done by one of
  the owners for all sources: always the same one, since what a comparison has found equal is kept there.
- ALL_SOURCES: the same, also where a source is named. Another one may have rows in the table that a reload empties.
- ASKED: the member that is asked does it, though it has a task, or its file.

What concerns no source is done where it is asked; some of it by every member (`_everywhere`).

A run that is waited for (`diff`, `flashback`, `replay`, `heal`) has a number of the member that has begun it. The
caller gets a number of this member's instead, and asks here. Those of the last runs are kept: a member keeps fewer that
are over.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, cast

from dm.cluster.ownership import SOURCE
from dm.config import SourceConfig
from dm.errors import DMError
from dm.unit import JSON
from dm.verbs import validation
from dm.verbs.cluster import TransferSource
from dm.verbs.declaration import ALL_SOURCES, ASKED, EACH_ITS_SOURCES, EACH_OWNER, ONE_SOURCE, ConfigFile, Verb
from dm.verbs.errands import RunStatus, StopRun
from dm.verbs.relays import OperatedRelay, PurgeRelay
from dm.verbs.shard_ddl_lock import ListLocks, Unlock
from dm.verbs.sources import ShowSources, StopSources, UpdateSources
from dm.verbs.status import ListTasks, QueryStatus
from dm.verbs.tasks import StartTask
from dm.worker.configuration import sources_of
from dm.worker.joined_answers import (
    Part,
    joined,
    of_sources,
    of_tasks,
    unreached_source,
    unreached_status,
)
from dm.worker.verb_work import Answer, Means, Work

_NOT_THERE: Final = ("validator-not-there", "validator-error-unknown")  # at one owner, where another has it
KEPT_RUNS: Final = 1000
SETTLING_SECONDS: Final = 15.0  # as long as it takes until a source has an owner that runs it, where one lives


class Routing:
    """Of one member."""

    def __init__(self, means: Means) -> None:
        assert means.others is not None
        self._means = means
        self._membership, self._forwarding = means.others.membership, means.others.forwarding
        self._registry = means.supervisor.registry
        self._lock = threading.Lock()
        self._numbers = itertools.count(1_000_000_001)
        self._runs: dict[int, tuple[str, int]] = {}  # member and its number, by the number that a caller has

    def routed(self, work: Mapping[type[Verb], Work]) -> Mapping[type[Verb], Work]:
        """The same verbs, done by the member that is to do them."""
        return {verb: partial(self._do, here) for verb, here in self.settled(work).items()}

    def settled(self, work: Mapping[type[Verb], Work]) -> Mapping[type[Verb], Work]:
        """The same verbs, done here, once the sources that they concern have been taken up here."""
        return {verb: partial(self._once_settled, here) for verb, here in work.items()}

    def _once_settled(self, here: Work, asked: Verb) -> Answer:
        means, mine = self._means, self._membership.ownership
        sources = [name for name in self._concerned(asked) or () if mine.owner(SOURCE, name) == self._membership.name]
        known = means.supervisor.sources
        means.loop.wait_until(lambda: all(name in known and known[name].here for name in sources), SETTLING_SECONDS)
        try:
            return here(asked)
        except DMError as error:
            if error.name != "registry-changed":  # what other members have changed is known by now
                raise
        return here(asked)

    def _do(self, here: Work, asked: Verb) -> Answer:
        match asked:
            case RunStatus() | StopRun():
                return self._of_run(here, asked, asked.number)
            case ListTasks():
                return of_tasks(self._everywhere(here, asked), self._elsewhere(asked.source))
            case ShowSources():
                return self._shown_sources(here, asked)
            case ListLocks(task="") | validation.OperatedValidators(task=""):
                return joined([part.given() for part in self._everywhere(here, asked)])
            case UpdateSources() | StopSources():
                return self._by_files(here, asked)
        sources = self._concerned(asked)
        return here(asked) if sources is None else self._by_owner(here, asked, sources)

    # which sources

    def _concerned(self, asked: Verb) -> Sequence[str] | None:
        """The sources that a verb is about; None where it is about none that others could have."""
        match asked:
            case OperatedRelay() | PurgeRelay() | TransferSource():
                return [asked.source]
            case StartTask():
                config = self._means.reader.task(asked.file, self._source_configs())[0]
                return sources_of(config, asked.sources)
            case Unlock():
                named = [task for task in self._registry.tasks() if asked.lock.startswith(f"{task}-`")]
                return self._sources_of(named[0], ())[:1] if named else None
        task = getattr(asked, "task", "")
        file = getattr(asked, "file", None)
        if isinstance(file, ConfigFile) and not task and asked.division is not ASKED:
            task = self._means.reader.task(file, None)[0].name
        if not task or asked.division is ASKED:
            return None
        found = self._sources_of(task, () if asked.division is ALL_SOURCES else _named(asked))
        return found[:1] if isinstance(asked, ListLocks) else found or None

    def _source_configs(self) -> Mapping[str, SourceConfig]:
        return self._means.loop.call(self._means.supervisor.source_configs)

    def _sources_of(self, task: str, wanted: Sequence[str]) -> list[str]:
        """The sources of a task that runs; what is not among them is refused by the member that is asked."""
        there = [source for name, source in self._registry.subtasks() if name == task]
        return [source for source in there if not wanted or source in wanted] or there

    # who does it

    def _owners(self, sources: Sequence[str]) -> dict[str, list[str]]:
        """The sources of each owner; those of none below the empty name."""
        found: dict[str, list[str]] = {}
        for source in sources:
            found.setdefault(self._membership.ownership.owner(SOURCE, source) or "", []).append(source)
        return found

    def _by_owner(self, here: Work, asked: Verb, sources: Sequence[str]) -> Answer:
        if not isinstance(asked, QueryStatus):
            known = self._registry.sources()
            self._means.loop.wait_until(lambda: "" not in self._owners([*known.keys() & {*sources}]), SETTLING_SECONDS)
        owners = self._owners(sources)
        if len(owners) == 1:
            (member,) = owners
            return self._at(member, here, asked, sources)
        if asked.division is EACH_OWNER:
            return self._each(self._parts(here, dict.fromkeys(owners, asked), owners))
        if asked.division is not EACH_ITS_SOURCES:
            return self._by_one(here, asked, owners)
        field = "sources" if hasattr(asked, "sources") else "source"
        parts = self._parts(here, {name: asked.but(**{field: (*its,)}) for name, its in owners.items()}, owners)
        unreached = self._unreached_status(asked.task) if isinstance(asked, QueryStatus) else unreached_source
        return of_sources(parts, list(sources), unreached)

    @staticmethod
    def _each(parts: Sequence[Part]) -> Answer:
        """What all of them have; one that has nothing of the kind is passed over, unless none has."""
        there = [part for part in parts if part.error is None or part.error.name not in _NOT_THERE]
        answer = joined([part.given() for part in there or parts])
        if isinstance(happenings := answer.get("happenings"), list):  # the newest last, whoever has seen it
            answer["happenings"] = sorted(happenings, key=lambda one: float(cast("Any", one)["at"]))
        return answer

    def _by_one(self, here: Work, asked: Verb, owners: Mapping[str, list[str]]) -> Answer:
        """One member does it for the sources of all, where that can be."""
        task = getattr(asked, "task", "") or "of the file"
        if asked.division is ONE_SOURCE:
            problem = f"task {task} has several sources: {', '.join(sorted(itertools.chain(*owners.values())))}"
            raise DMError("usage", problem=problem, hint=f"dmctl {asked.name} .. --source <one of them>")
        there = sorted(name for name in owners if name)
        if there and asked.asks_servers_alone():
            first = min(there, key=lambda name: min(owners[name]))
            return self._at(first, here, asked, owners[first])
        most = max(there, key=lambda name: len(owners[name]))
        moved = sorted(source for name, its in owners.items() for source in its if name != most)
        raise DMError(
            "task-on-several-members",
            task=task,
            members=", ".join(sorted(name or "none" for name in owners)),
            verb=asked.name or asked.path,
            ways="; ".join(f"`dmctl transfer-source {source} {most}`" for source in moved),
        )

    def _at(self, member: str, here: Work, asked: Verb, sources: Sequence[str]) -> Answer:
        """What one member answers."""
        if isinstance(asked, QueryStatus) and member != self._membership.name:  # also of a host that is gone
            (part,) = self._parts(here, {member: asked}, {member: [*sources]})
            return of_sources([part], list(sources), self._unreached_status(asked.task))
        if not member and not self._registry.sources().keys() & {*sources}:
            return here(asked)  # which says that there is no such source
        if not member:
            raise DMError("source-without-owner", sources=", ".join(sources))
        if member == self._membership.name:
            return here(asked)
        answer = self._forwarding.ask(member, asked)
        return (
            {**answer, "number": self._number(member, answer)} if "number" in asked.answer.keys else answer
        )  # of a run

    def _parts(self, here: Work, asked: Mapping[str, Verb], sources: Mapping[str, list[str]]) -> list[Part]:
        """What several members answer, asked at once; an error stands in the place of an answer."""

        def ask(member: str) -> Part:
            if not member:
                error = DMError("source-without-owner", sources=", ".join(sources[member]))
                return Part(member, sources[member], error=error)
            try:
                verb = asked[member]
                answer = here(verb) if member == self._membership.name else self._forwarding.ask(member, verb)
            except DMError as error:
                return Part(member, sources.get(member, []), error=error)
            return Part(member, sources.get(member, []), answer)

        if any(isinstance(verb, StartTask) for verb in asked.values()):  # each finds what the one before has stored
            return [ask(member) for member in asked]
        with ThreadPoolExecutor(max(1, len(asked)), thread_name_prefix="members") as threads:
            return list(threads.map(ask, asked))

    def _everywhere(self, here: Work, asked: Verb) -> list[Part]:
        """Every member that lives, with the sources that it owns."""
        owners = self._membership.ownership.owners(SOURCE)
        members = sorted({*self._membership.members.living(), self._membership.name})
        sources = {name: [source for source, owner in owners.items() if owner == name] for name in members}
        return self._parts(here, dict.fromkeys(members, asked), sources)

    # what they say together

    def _elsewhere(self, wanted: Sequence[str]) -> dict[str, list[str]]:
        """The tasks of the registry with their sources."""
        found: dict[str, list[str]] = {}
        for task, source in self._registry.subtasks():
            if not wanted or source in wanted:
                found.setdefault(task, []).append(source)
        return found

    def _shown_sources(self, here: Work, asked: ShowSources) -> Answer:
        """Each as its owner shows it; what no member shows, as it is known here."""
        names = list(asked.source) or sorted(self._registry.sources())
        known = {str(line["source"]): line for line in cast("list[dict[str, JSON]]", here(asked)["sources"])}
        owners = {member: its for member, its in self._owners(names).items() if member != self._membership.name}
        parts = self._parts(here, {name: ShowSources(source=(*its,)) for name, its in owners.items()}, owners)
        for part in parts:
            lines = part.lines() if part.error is None else []
            known |= {str(line["source"]): line for line in lines}
            for source in part.sources if part.error is not None else ():
                line = known.setdefault(source, {"source": source, "tasks": []})  # new there, and not known here yet
                line.update(result=False, msg=str(part.error), worker=part.member)
        subtasks = [*self._registry.subtasks()]
        for name, line in known.items():
            line["tasks"] = [task for task, source in subtasks if source == name]
        return {"sources": [known[name] for name in names if name in known]}

    def _unreached_status(self, task: str) -> Callable[[Part, str], dict[str, JSON]]:
        stored = self._registry.subtasks()

        def line(part: Part, source: str) -> dict[str, JSON]:
            heard = self._forwarding.heard_of(part.member) if part.member else ""
            return unreached_status(part, source, task, stored.get((task, source)), heard)

        return line

    def _by_files(self, here: Work, asked: UpdateSources | StopSources) -> Answer:
        """Each source by its owner."""
        named = [(self._means.reader.source(file).source_id, file) for file in asked.files]
        names = [*asked.sources] if isinstance(asked, StopSources) else []
        owners = self._owners([*(name for name, _ in named), *names])
        verbs: dict[str, Verb] = {}
        for member, its in owners.items():
            part: Verb = asked.but(files=tuple(file for name, file in named if name in its))
            verbs[member] = part.but(sources=tuple(name for name in names if name in its)) if names else part
        if len(owners) == 1:
            (member,) = owners
            return here(asked) if member in ("", self._membership.name) else self._forwarding.ask(member, asked)
        return joined([part.given() for part in self._parts(here, verbs, owners)])

    # runs that are waited for

    def _number(self, member: str, answer: Answer) -> int:
        with self._lock:
            number = next(self._numbers)
            self._runs[number] = (member, int(str(answer["number"])))
            self._runs.pop(number - KEPT_RUNS, None)
        return number

    def _of_run(self, here: Work, asked: Verb, number: int) -> Answer:
        with self._lock:
            found = self._runs.get(number)
        return here(asked) if found is None else self._forwarding.ask(found[0], asked.but(number=found[1]))


def _named(asked: Verb) -> Sequence[str]:
    """The sources that a verb names."""
    for field in ("sources", "source"):
        said = getattr(asked, field, ())
        if said:
            return [said] if isinstance(said, str) else [*said]
    return []
