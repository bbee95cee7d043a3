"""Figures of several rounds, and what processes cost."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TypeVar

from dm.demo.private_server import PrivateServer
from dm.unit import JSON

Side = TypeVar("Side")

RunPython = Callable[[str, JSON], JSON]
"""Runs a module of ours with an order and gives its answer."""

_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Cost:
    """What one run took."""

    wall: float  # seconds
    client: float = 0.0  # CPU seconds of the program
    server: float = 0.0  # CPU seconds of the server that is written to


def in_turn(sides: Sequence[Side], number: int) -> Sequence[Side]:
    """Who comes when in a round: each side is first as often as the others, and behind each other one."""
    first = number % len(sides)
    return [*sides[first:], *sides[:first]]


def process_seconds(pid: int) -> float:
    """CPU seconds of a process so far."""
    return _ticks(pid, own=True) / _TICKS


def server_seconds(server: PrivateServer) -> float:
    """CPU seconds of a server so far."""
    return process_seconds(server.pid)


@contextmanager
def apart(*servers: int) -> Iterator[None]:
    """The servers' processes run on the last processor, this thread and the programs that it starts on the others.

    Raises RuntimeError on a machine with one processor.
    """
    every = os.sched_getaffinity(0)
    last = {max(every)}
    if every == last:
        raise RuntimeError("client and servers share the only processor of this machine")
    _hold(servers, last)
    os.sched_setaffinity(0, every - last)
    try:
        yield
    finally:
        os.sched_setaffinity(0, every)
        _hold(servers, every)


def _hold(servers: Sequence[int], processors: Collection[int]) -> None:
    """A thread has the processors of the thread that started it, so the second look finds what began meanwhile."""
    for server in (*servers, *servers):
        for thread in os.listdir(f"/proc/{server}/task"):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(int(thread), processors)


def stolen_seconds() -> tuple[float, float]:
    """What the host has kept of this machine's processors since it began, and all of their time (proc(5), "steal")."""
    first, *fields = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    assert first == "cpu"
    user, nice, system, idle, waiting, irq, softirq, stolen = (int(field) / _TICKS for field in fields[:8])
    return stolen, user + nice + system + idle + waiting + irq + softirq + stolen


def tree_seconds(pid: int) -> float:
    """CPU seconds so far of a process and all below it, those that ended and were waited for included."""
    total = 0
    for at in descendants(pid):
        try:
            total += _ticks(at, own=False)
        except (FileNotFoundError, ProcessLookupError):
            continue  # it ended; its parent has its ticks
    return total / _TICKS


def descendants(pid: int) -> Iterator[int]:
    """A process and all below it, each parent first."""
    left = [pid]
    while left:
        at = left.pop()
        yield at
        for children in Path(f"/proc/{at}/task").glob("*/children"):
            try:
                left.extend(map(int, children.read_text(encoding="ascii").split()))
            except (FileNotFoundError, ProcessLookupError):
                continue  # the thread ended


def _ticks(pid: int, *, own: bool) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:13] if own else fields[11:15]))


@dataclass(frozen=True, slots=True)
class Finished:
    """A program that came to its end."""

    cost: Cost
    output: str


def run_program(command: Sequence[str], *, given: str = "", environment: Mapping[str, str] | None = None) -> Finished:
    """Run a program; raises CalledProcessError with its stderr when it fails."""
    began = time.monotonic()
    process = subprocess.Popen(
        list(command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, **(environment or {})},
    )
    before = os.times()
    output, errors = process.communicate(given)
    wall = time.monotonic() - began
    after = os.times()
    if process.returncode:
        failed = subprocess.CalledProcessError(process.returncode, list(command), output, errors)
        failed.add_note(errors)
        raise failed
    client = after.children_user - before.children_user + after.children_system - before.children_system
    return Finished(Cost(wall, client), output)


def run_python(module: str, order: JSON) -> JSON:
    """Run a module of ours in a process of its own; order and answer are JSON."""
    done = run_program([sys.executable, "-m", module], given=json.dumps(order))
    answer: JSON = json.loads(done.output.splitlines()[-1])
    return answer


@dataclass
class Series:
    """The figures of one way of doing something, one per round."""

    name: str
    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The figure that counts."""
        return statistics.median(self.values)

    def to_json(self) -> JSON:
        """As it is stored."""
        return {"unit": self.unit, "median": self.median, "values": list(self.values)}


@dataclass
class Comparison:
    """One line of the table: ours beside a peer, the goal and what came out."""

    key: str
    what: str
    ours: Series
    peer: Series
    goal: float
    # At least so many times the peer's, or at most so many times, or so much more at most.
    judged_by: Literal["ratio", "limit", "difference"] = "ratio"
    notes: Mapping[str, JSON] = field(default_factory=dict)

    def apart(self, goal: float) -> Comparison:
        """The same with a processor for the client and another for the servers."""
        what = f"{self.what}, a processor each"
        return replace(self, key=f"{self.key}.apart", what=what, goal=self.goal if self.judged_by == "limit" else goal)

    @property
    def result(self) -> float:
        """What is held against the goal: the ratio or the difference of the medians."""
        return self._of(self.ours.median, self.peer.median)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the greatest of a round."""
        found = [self._of(one, other) for one, other in zip(self.ours.values, self.peer.values, strict=True)]
        return min(found), max(found)

    @property
    def reached(self) -> bool:
        """Whether the goal is reached."""
        return self.result >= self.goal if self.judged_by == "ratio" else self.result <= self.goal

    def _of(self, one: float, other: float) -> float:
        return one - other if self.judged_by == "difference" else one / other

    def to_json(self) -> JSON:
        """As it is stored."""
        return {
            "key": self.key,
            "what": self.what,
            "ours": self.ours.to_json(),
            "peer": {"name": self.peer.name, **_mapping(self.peer.to_json())},
            "goal": self.goal,
            self.judged_by: round(self.result, 3),
            "range": [round(edge, 3) for edge in self.range],
            "reached": self.reached,
            **self.notes,
        }


def _mapping(value: JSON) -> dict[str, JSON]:
    assert isinstance(value, dict)
    return value
