"""The gauges: what is measured for limits that depend on servers or hours.

A replica of the target tells `Seconds_Behind`, but too late: it counts from the event that the replica executes now,
and what waits after that event will be later still. With a replica that needs three times as long as `dm`, a task that
stops at 5 seconds has already written 15. So the delay is foreseen: the bytes of binlog that the replica has yet to
execute, over the bytes per second that it was seen to execute. A task holds at half of the limit, by what is said and
by what is foreseen, whichever is more; so rows in open transactions still arrive in time.

What is written between two measurements is bounded, too: a backlog would be at the target before the first of it was
measured. The bound begins small and doubles while all of it is used and the replica is in time. What has made a replica
late tells how much would have been right. What is hardly used shrinks again: it is from another load.

A server that can't be asked, and a replica that does not replicate, hold the task: whoever named it wants it spared.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from dm.clock import Clock
from dm.config.endpoint import Endpoint
from dm.config.pace import PaceConfig
from dm.errors import DMError
from dm.pace.governor import Gauge
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import PROMPT_SECONDS, Connection, connect, fetch, fetch_named, threads_running
from dm.sourcelog.upstream.facts import ServerFacts, read_facts

_AGAIN_SECONDS: Final = 2.0  # after a server that could not be asked
_WINDOW_SECONDS: Final = 3.0  # over which a replica's speed is taken
_SHARE: Final = 0.5  # of a replica's limit, at which a task holds
_LEAST_BYTES: Final = 16 << 10  # between two measurements
_MOST_BYTES: Final = float(1 << 40)


def target_gauges(target: Endpoint, clock: Clock) -> Callable[[PaceConfig], Sequence[Gauge]]:
    """The gauges of a task's limits, but for those of its sources."""

    def made(config: PaceConfig) -> Sequence[Gauge]:
        gauges: list[Gauge] = []
        if config.hours:
            gauges.append(Hours(config, clock))
        if config.target_threads_running is not None:
            gauges.append(ThreadsRunning(_Gauged(target, "target", clock), config.target_threads_running))
        if config.query and config.query_limit is not None:
            gauges.append(UserQuery(_Gauged(target, "target", clock), config.query, config.query_limit))
        if config.replica_lag is not None:
            gauges += [ReplicaDelay(target, name, config.replica_lag, clock) for name in config.replicas]
        return gauges

    return made


def source_gauges(source: Endpoint, clock: Clock) -> Callable[[PaceConfig], Sequence[Gauge]]:
    """The gauges of the limits of one source."""

    def made(config: PaceConfig) -> Sequence[Gauge]:
        limit = config.source_threads_running
        return [] if limit is None else [ThreadsRunning(_Gauged(source, "source", clock), limit)]

    return made


class _Gauged:
    """A server with one session, which is opened again after a while when it has ended."""

    def __init__(self, endpoint: Endpoint, name: str, clock: Clock) -> None:
        self.name = name
        self._endpoint = endpoint
        self._clock = clock
        self._session: Connection | None = None
        self._refused = ""
        self._again_at = 0.0

    def told(self, ask: Callable[[Connection], str]) -> str:
        """What the gauge says of the server's answer, or that there is none."""
        if self._refused and self._clock.monotonic() < self._again_at:
            return self._refused
        try:
            if self._session is None:
                role = "upstream" if self.name == "source" else "target"
                self._session = connect(self._endpoint, role=role, read_timeout=PROMPT_SECONDS)
            self._refused = ""
            return ask(self._session)
        except DMError as error:
            self.close()
            self._again_at = self._clock.monotonic() + _AGAIN_SECONDS
            self._refused = f"the {self.name} can't be asked for its load: {error.report()['Message']} {error.cause}"
            return self._refused

    def close(self) -> None:
        session, self._session = self._session, None
        if session is not None:
            cast(Any, session)._force_close()


class Hours(Gauge):
    """The hours in which a task works, by the clock of this machine."""

    def __init__(self, config: PaceConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock

    def excess(self) -> str:
        """That it is not the hour."""
        now = time.localtime(self._clock.time())
        if self._config.works_at(now.tm_hour, now.tm_min):
            return ""
        return f"it is {now.tm_hour:02}:{now.tm_min:02}, and the task works {', '.join(self._config.hours)}"

    def close(self) -> None:
        """There is no session."""


class ThreadsRunning(Gauge):
    """Sessions of a server that execute something now, this one among them."""

    def __init__(self, server: _Gauged, limit: int) -> None:
        self._server = server
        self._limit = limit

    def excess(self) -> str:
        """That they are more than the limit."""
        return self._server.told(self._ask)

    def _ask(self, session: Connection) -> str:
        running = threads_running(session)
        return f"{running} threads run at the {self._server.name}, limit {self._limit}" if running > self._limit else ""

    def close(self) -> None:
        """End the session."""
        self._server.close()


class UserQuery(Gauge):
    """A person's query at the target, which gives one number."""

    def __init__(self, server: _Gauged, query: str, limit: float) -> None:
        self._server = server
        self._query = query
        self._limit = limit

    def excess(self) -> str:
        """That the number is above the limit, or that there is none."""
        return self._server.told(self._ask)

    @reads_answers
    def _ask(self, session: Connection) -> str:
        rows = fetch(session, self._query, role="target")
        try:
            found = float(str(rows[0][0]))
        except (IndexError, ValueError):
            return f"the query of `pace` gives no number, but {str(rows[:1])[:80]}"
        return f"the query of `pace` gives {found:g}, limit {self._limit:g}" if found > self._limit else ""

    def close(self) -> None:
        """End the session."""
        self._server.close()


class ReplicaDelay(Gauge):
    """How late one replica of the target is, or will be with what it has yet to execute."""

    def __init__(self, target: Endpoint, name: str, limit: float, clock: Clock) -> None:
        host, port = _address(name)
        self._name = name
        self._limit = limit
        self._clock = clock
        self._target = _Gauged(target, "target", clock)
        self._replica = _Gauged(target.model_copy(update={"host": host, "port": port}), f"replica {name}", clock)
        self._facts: ServerFacts | None = None
        self._seen: deque[tuple[float, int]] = deque()  # when, and how many bytes were executed
        self._speed = 0.0  # bytes per second, as it was last seen at work
        self._late: float | None = None  # as it was measured last; None: not known
        self._step = float(_LEAST_BYTES)  # what may be written until the next measurement, where it is in time
        self._granted = 0.0
        self._made_late = (0.0, 0.0)  # how many bytes have made it how late, while it is

    def excess(self) -> str:
        """That it is late, will be, or does not replicate."""
        found: list[tuple[str, int]] = []
        self._late = None

        @reads_answers
        def written(session: Connection) -> str:
            rows = fetch(session, "SHOW BINARY LOGS", role="target")
            found[:] = [(str(name), int(size)) for name, size, *_ in rows]
            return ""

        return self._target.told(written) or self._replica.told(lambda session: self._ask(session, found))

    @reads_answers
    def _ask(self, session: Connection, files: Sequence[tuple[str, int]]) -> str:
        self._facts = self._facts or read_facts(session)
        modern = self._facts.dialect.says_replica_status
        rows = fetch_named(session, "SHOW REPLICA STATUS" if modern else "SHOW SLAVE STATUS", role="target")
        if not rows:
            return f"{self._name} is no replica"
        told = {name.lower().replace("master", "source"): value for name, value in rows[0].items()}
        seconds = told.get("seconds_behind_source")
        if seconds is None:
            why = told.get("last_sql_error") or told.get("last_io_error") or "its replication is stopped"
            return f"the target's replica {self._name} does not replicate: {str(why)[:200]}"
        file, offset = str(told["relay_source_log_file"]), int(str(told["exec_source_log_pos"]))
        foreseen = self._foreseen(files, file, offset)
        self._late = None if foreseen is None else max(float(seconds), foreseen)
        late = self._late or 0.0
        if late <= self._limit * _SHARE:
            return ""
        limit = f"limit {self._limit:g} s, of which the task uses {_SHARE:.0%}"
        return f"the target's replica {self._name} is {late:.1f} s late, {limit}"

    def allowance(self, used: float) -> float:
        """As much as makes it later by a quarter of the limit, by what the last bytes have done."""
        late, most, granted, self._granted = self._late, self._limit * _SHARE, self._granted, 0.0
        if late is None:
            return 0.0
        if late > most:
            size, worst = self._made_late
            self._made_late = size, worst = size or max(self._step, used), max(worst, late)
            self._step = max(float(_LEAST_BYTES), size * most / 2 / worst)
            return 0.0
        self._made_late = 0.0, 0.0
        if granted and used >= granted:
            times = min(2.0, most / 2 / late) if late > 0 else 2.0
            self._step = min(_MOST_BYTES, self._step * max(1.0, times))
        elif granted and used < granted / 4:
            self._step = max(float(_LEAST_BYTES), self._step / 2)
        self._granted = self._step
        return self._step

    def _foreseen(self, files: Sequence[tuple[str, int]], file: str, offset: int) -> float | None:
        """Seconds that it needs for what it has yet to execute; 0 where it executes another server's binlog.

        None where it was never seen at work.
        """
        before, executed = 0, None
        for name, size in files:
            if name == file:
                executed = before + offset
            before += size
        if executed is None:
            return 0.0
        now, left = self._clock.monotonic(), max(0, before - executed)
        if not left:
            self._seen.clear()  # a replica that rests is not slow
        self._seen.append((now, executed))
        while len(self._seen) > 2 and now - self._seen[1][0] >= _WINDOW_SECONDS:
            self._seen.popleft()
        began, first = self._seen[0]
        if not left:
            return 0.0
        if now > began:
            self._speed = max(0, executed - first) / (now - began)
            if not self._speed:
                return now - began
        return left / self._speed if self._speed else None

    def close(self) -> None:
        """End both sessions."""
        self._target.close()
        self._replica.close()


def _address(name: str) -> tuple[str, int]:
    host, found, port = name.rpartition(":")
    if not found or name.endswith("]"):
        return name.strip("[]"), 3306
    return host.strip("[]"), int(port)
