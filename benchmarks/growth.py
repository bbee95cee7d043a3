"""Growth: CPU per row, of dm and the server together, with twice the data; a cost that grows in line stays the same."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import catch_up, full
from benchmarks.measure import Comparison, Cost, Series, in_turn
from benchmarks.pull import pull_ours
from benchmarks.recording import Recording, record
from benchmarks.workload import WORKLOADS
from dm.demo.servers import ThrowawayServer
from dm.unit import JSON

GOAL = 1.15
_WORKLOAD = "B"
_SHARE = 0.2  # of the rows that are dumped and loaded beside the peers


class _Growth:
    """One thing that is done with some data and with twice as much."""

    def __init__(self, key: str, what: str, rows: tuple[int, int]) -> None:
        self._key, self._what, self._rows = key, what, rows
        unit = "us of CPU per row"
        self._series = (Series("dm, half of the rows", unit), Series("dm", unit))
        self._walls: list[list[JSON]] = [[], []]

    def book(self, twice: int, client: float, server: float, wall: float) -> None:
        """What one run took, in seconds."""
        self._series[twice].values.append((client + server) * 1e6 / self._rows[twice])
        self._walls[twice].append(round(wall, 3))

    def comparison(self) -> Comparison:
        """The line of the table."""
        half, whole = self._series
        notes: dict[str, JSON] = {"rows": list(self._rows), "seconds": [list(each) for each in self._walls]}
        what = f"twice the rows, {self._what}"
        return Comparison(f"growth.{self._key}", what, whole, half, GOAL, judged_by="limit", notes=notes)


def measure(
    source: ThrowawayServer, target: ThrowawayServer, scale: float, full_scale: float, rounds: int
) -> Iterator[Comparison]:
    """Catch-up, dump and load, the smaller and the larger one in turn."""
    yield _catch_up(source, target, scale, rounds)
    rows = int(full.SYSBENCH.rows * full_scale * _SHARE)
    sizes = (rows // 2, rows // 2 * 2)
    dump, load = _Growth("dump", "dump", sizes), _Growth("load", "load", sizes)
    with full.place() as where:
        tables = [full.fill(where.source, full.SYSBENCH, size) for size in sizes]
        for number in range(rounds):
            for twice, filled in in_turn(tuple(enumerate(tables)), number):
                cost, directory = where.dump(filled)
                _book(dump.book, twice, cost)
                _book(load.book, twice, where.load(filled, directory))
    yield dump.comparison()
    yield load.comparison()


def _book(book: Callable[[int, float, float, float], None], twice: int, cost: Cost) -> None:
    book(twice, cost.client, cost.server, cost.wall)


def _catch_up(source: ThrowawayServer, target: ThrowawayServer, scale: float, rounds: int) -> Comparison:
    workload = WORKLOADS[_WORKLOAD]
    recordings: list[Recording] = []
    with tempfile.TemporaryDirectory(prefix="dm-bench-") as place:
        directory = Path(place)
        for number, size in enumerate((scale / 2, scale)):
            recording = record(source, workload, size, table=f"growth_{number}")
            # Before the next one is written: a relay does not stop at the end of a file.
            pull_ours(source, recording, directory / recording.table)
            recordings.append(recording)
        growth = _Growth("catch-up", f"catch-up {_WORKLOAD}", (recordings[0].rows, recordings[1].rows))
        for number in range(rounds):
            for twice, recording in in_turn(tuple(enumerate(recordings)), number):
                relay, work = directory / recording.table, directory / f"{number}-{twice}"
                seconds, cost = catch_up.run_ours(source, target, recording, work, relay)
                rows = recording.rows / 1e6
                growth.book(twice, cost["client"] * rows, cost["server"] * rows, seconds)
    return growth.comparison()
