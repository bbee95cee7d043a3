"""`dmctl demo`: the whole path on private throw-away servers, with a crash in the middle and a comparison in the end.

Two upstream shops keep selling while an `all` task copies them through Spark into one target and follows their
binlogs; a multi-operation ALTER comes on both, one sync process is killed with SIGKILL. Then the sales stop, the task
catches up, and every row of every table is compared. It goes through the daemon's API like any user; what is its own
is the workload.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from io import StringIO
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML

from dm.cli import output
from dm.cli.client import Client, RequestRefused, read_config_file
from dm.cli.verbs.cutover import state_lines
from dm.clock import Clock, SystemClock
from dm.demo.compare import ComparisonReport, compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.demo.shop import Shop, load_all
from dm.demo.workload import Writer, WriterCounts
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.text import counted
from dm.verbs.cutover import BeginCutOver, CompleteCutOver, CutOverStatus
from dm.verbs.program import Daemon, Shutdown
from dm.verbs.sources import CreateSources
from dm.verbs.status import QueryStatus
from dm.verbs.tasks import StartTask

TASK = "demo"
SOURCES = ("shop-1", "shop-2")
POLL_SECONDS = 0.25
LINE_SECONDS = 1.0
PATIENCE_SECONDS = 300.0  # without anything new


@dataclass
class Summary:
    """What the demo measured."""

    flavor: str
    upstreams: int
    initial_rows: int = 0
    load_seconds: float = 0.0
    recovery_seconds: float = 0.0
    worst_lag: float = 0.0
    sync_rows: int = 0
    sync_seconds: float = 0.0
    catch_up_seconds: float = 0.0
    compare_seconds: float = 0.0
    tallies: list[WriterCounts] = field(default_factory=list)
    report: ComparisonReport | None = None


class DemoRun:
    """One run of the demo."""

    sources: Sequence[str] = SOURCES

    def __init__(self, directory: Path, *, flavor: Flavor, rows: int, rate: float, seed: int, seconds: float) -> None:
        self._directory = directory
        self._rate = rate
        self._seed = seed
        self._seconds = seconds
        number_of = len(self.sources)
        self._shops = [Shop(f"shop_{number + 1}", shard=number, rows=rows // number_of) for number in range(number_of)]
        self.upstreams = [ThrowawayServer(flavor, directory / name, server_id=number + 1)
                          for number, name in enumerate(self.sources)]  # fmt: skip
        self.target = ThrowawayServer(flavor, directory / "target", server_id=3)
        self.home = directory / "home"
        self._environment = {**os.environ, "DM_HOME": str(self.home)}
        self.client = Client(None, self._environment, output.say)
        self.summary = Summary(flavor, number_of)
        self._writers: list[Writer] = []
        self._last_line = 0.0
        self._task = TASK  # that is followed

    def run(self) -> bool:
        """The whole story; True when every row is identical."""
        self._start_servers()
        self._write_files()
        self._start_task()
        began = time.monotonic()
        self._follow(lambda status: all(unit == "Sync" for unit in _units(status)), "dump and load")
        self.summary.load_seconds = time.monotonic() - began
        began = time.monotonic()
        self._sell_through_a_crash()
        self.summary.tallies = [writer.stop() for writer in self._writers]
        output.print_line("the shops are closed; waiting until everything is applied")
        closed = time.monotonic()
        status = self._follow(lambda status: all(_synced(status)), "catch up")
        self.summary.catch_up_seconds = time.monotonic() - closed
        self.summary.sync_seconds = time.monotonic() - began
        self.summary.sync_rows = sum(int(sync.get("totalRows", 0)) for sync in _syncs(status))
        return self._compare()

    def _start_servers(self) -> None:
        flavor = self.upstreams[0].flavor
        output.print_line(
            f"starting {'three' if len(self.sources) > 1 else 'two'} private {flavor} servers below {self._directory}"
        )
        for server in (*self.upstreams, self.target):
            server.start()
        output.print_line(f"filling {counted(len(self.sources), 'shop')} (seed {self._seed})")
        self.summary.initial_rows = load_all(list(zip(self.upstreams, self._shops, strict=True)), self._seed)
        output.print_line(f"{self.summary.initial_rows} rows are there; {_shops(len(self.sources))} now")
        self._writers = [
            Writer(server, shop, seed=self._seed + 10 + number, rate=self._rate).start()
            for number, (server, shop) in enumerate(zip(self.upstreams, self._shops, strict=True))
        ]

    def _write_files(self) -> None:
        """Source files for our servers, and the example task with our target's port."""
        for source_id, server in zip(self.sources, self.upstreams, strict=True):
            text = (
                f"source-id: {source_id}\nfrom:\n  host: {server.host}\n  port: {server.port}\n"
                f"  user: {server.user}\n  password: {server.password}\n"
            )
            self._private(f"{source_id}.yaml", text)
        task = self._task_file().replace("port: 3306", f"port: {self.target.port}")
        self._private("task.yaml", task.replace("${DM_DEMO_TARGET_PASSWORD}", self.target.password))

    def _task_file(self) -> str:
        return example()

    def _private(self, name: str, text: str) -> None:
        path = self._directory / name
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")

    def _start_task(self) -> None:
        files = (read_config_file(str(self._directory / f"{source_id}.yaml")) for source_id in self.sources)
        self.client.ask(CreateSources(files=tuple(files)))
        answer = self.client.ask(StartTask(file=read_config_file(str(self._directory / "task.yaml"))))
        for warning in answer.get("warnings", []):
            output.say(f"warning: {warning}")
        output.print_line(f"task {TASK} is started")

    def _sell_through_a_crash(self) -> None:
        half = time.monotonic() + self._seconds / 2
        self._follow(lambda _: time.monotonic() >= half, "follow the shops")
        for writer, source_id in zip(self._writers, SOURCES, strict=True):
            output.print_line(f"{source_id}: {writer.alter()}")
        victim = self._sync_process(SOURCES[0])
        before = self._position(SOURCES[0])
        os.kill(victim, signal.SIGKILL)
        killed = time.monotonic()
        output.print_line(f"killed the sync process of {SOURCES[0]} (pid {victim}) with SIGKILL")
        self._follow(lambda status: self._recovered(status, victim, before), "recover from the kill")
        self.summary.recovery_seconds = time.monotonic() - killed
        output.print_line(f"it is applying again, {self.summary.recovery_seconds:.1f} s after the kill")
        rest = time.monotonic() + self._seconds / 2
        self._follow(lambda _: time.monotonic() >= rest, "follow the shops")

    def _sync_process(self, source_id: str) -> int:
        processes = self.client.ask(Daemon())["processes"]
        return int(processes.get(f"sync:{TASK}:{source_id}", 0))

    def _position(self, source_id: str) -> str:
        return str(self._sync_of(self._status(), source_id).get("syncerBinlog", ""))

    def _recovered(self, status: Mapping[str, Any], victim: int, before: str) -> bool:
        position = str(self._sync_of(status, SOURCES[0]).get("syncerBinlog", ""))
        return self._sync_process(SOURCES[0]) not in (0, victim) and position not in ("", before)

    @staticmethod
    def _sync_of(status: Mapping[str, Any], source_id: str) -> Mapping[str, Any]:
        for source in status["sources"]:
            if source["sourceStatus"]["source"] == source_id:
                found: Mapping[str, Any] = source["subTaskStatus"][0].get("sync") or {}
                return found
        return {}

    def _status(self) -> Mapping[str, Any]:
        return self.client.ask(QueryStatus(task=self._task))

    def _follow(self, until: Callable[[Mapping[str, Any]], bool], what: str) -> Mapping[str, Any]:
        """Show the progress until the condition holds; raises DMError for an error that only a person can mend."""
        patience = WaitLimit(PATIENCE_SECONDS, SystemClock())
        while True:
            status = self._status()
            patience.see(sight_of(status))
            for sync in _syncs(status):
                self.summary.worst_lag = max(self.summary.worst_lag, float(sync.get("secondsBehindMaster") or 0))
            if until(status):
                return status
            if time.monotonic() - self._last_line >= LINE_SECONDS:
                self._last_line = time.monotonic()
                output.print_line(_line(status, sum(writer.tally.transactions for writer in self._writers)))
            if patience.over or any(_given_up(subtask) for subtask in _subtasks(status)):
                output.status_table(dict(status))
                raise DMError("demo-stuck", what=what, seconds=int(patience.idle), log=self.home / "log")
            time.sleep(POLL_SECONDS)

    def _compare(self) -> bool:
        began = time.monotonic()
        pairs = pair_tables(
            self.upstreams,
            [f"shop_{number + 1}" for number in range(len(self.sources))],
            route=lambda _, table: TableName("shop", table.table),
        )
        self.summary.report = compare(pairs, self.target)
        self.summary.compare_seconds = time.monotonic() - began
        return self.summary.report.identical

    def leave_running(self) -> None:
        """Keep servers, daemon and workload's data; say how to reach them."""
        for server in (*self.upstreams, self.target):
            server.detach()
        names = (*self.sources, "target")
        for name, server in zip(names, (*self.upstreams, self.target), strict=True):
            output.print_line(
                f"{name}: mysql -h {server.host} -P {server.port} -u {server.user}  (password in the file)"
            )
        output.print_line(f"files and passwords: {self._directory}")
        output.print_line(f"try: export DM_HOME={self.home}; dmctl query-status {TASK}; dmctl pause-task {TASK};")
        output.print_line(f"     dmctl resume-task {TASK}; dmctl stop-task {TASK}; dmctl shutdown")

    def close(self, *, keep_logs: bool) -> None:
        """End everything this run started; delete its files, or all but those that tell what went wrong."""
        for writer in self._writers:
            writer.stop()
        if self.client.running():
            pid = int(self.client.ask(Shutdown())["pid"])
            deadline = time.monotonic() + 20
            while _alive(pid) and time.monotonic() < deadline:
                time.sleep(0.05)
        for server in (*self.upstreams, self.target):
            server.leave_log() if keep_logs else server.destroy()
        if keep_logs:
            output.say(f"the demo failed; its files are kept in {self._directory}, the logs of dm in {self.home}/log")
        else:
            shutil.rmtree(self._directory, ignore_errors=True)


class CutOverRun(DemoRun):
    """One shop moves to the target and back, with the verb alone, and sells in between."""

    sources = SOURCES[:1]

    def run(self) -> bool:
        """The whole story; True when both servers have the same rows in the end."""
        self._start_servers()
        self._write_files()
        self._start_task()
        began = time.monotonic()
        self._follow(lambda status: all(unit == "Sync" for unit in _units(status)), "dump and load")
        self.summary.load_seconds = time.monotonic() - began
        self._sell("the source")
        self._cut_over(back=False)
        self._opens(self.target, "shop")
        self._sell("the target")
        self._cut_over(back=True)
        self._opens(self.upstreams[0], "shop_1")
        self._sell("the source again")
        self.client.ask(CompleteCutOver(task=TASK))
        return self._compare()

    def _task_file(self) -> str:
        yaml, written = YAML(), StringIO()
        known = yaml.load(example())
        del known["mysql-instances"][1:]
        yaml.dump(known, written)
        return written.getvalue()

    def _opens(self, server: ThrowawayServer, schema: str) -> None:
        (shop,) = self._shops
        shop.moves(schema)
        self._writers = [Writer(server, shop, seed=self._seed + len(self.summary.tallies), rate=self._rate).start()]

    def _sell(self, where: str) -> None:
        rest = time.monotonic() + self._seconds / 4
        self._follow(lambda _: time.monotonic() >= rest, "follow the shop")
        sold = self._writers[0].stop()
        self.summary.tallies.append(sold)
        output.print_line(f"the shop has sold at {where}: {sold.transactions} transactions; it closes")
        self._follow(lambda status: all(_synced(status)), "catch up")

    def _cut_over(self, *, back: bool) -> None:
        """As `dmctl cut-over demo` does it, with all rows compared."""
        words = "dmctl cut-over demo --back" if back else "dmctl cut-over demo"
        output.print_line(words)
        answer, state = self.client.ask(BeginCutOver(task=TASK, back=back)), ""
        while answer["driven"]:
            if answer["state"] != state:
                state = answer["state"]
                output.print_line(f"  {state}")
            time.sleep(POLL_SECONDS)
            answer = self.client.ask(CutOverStatus(task=TASK))
        for line in state_lines(answer):
            output.print_line(line)
        self._task = TASK if back else answer["cutOver"]["way_back"]["task"]
        if answer["state"] != "switched":
            raise DMError("demo-stuck", what=words, seconds=0, log=self.home / "log")


def _shops(number: int) -> str:
    return "both shops open" if number > 1 else "the shop opens"


def example() -> str:
    """The task file of the demo, which comes with the package."""
    return resources.files("dm.demo").joinpath("task.yaml").read_text(encoding="utf-8")


def _alive(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _subtasks(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [subtask for source in status["sources"] for subtask in source["subTaskStatus"]]


def _given_up(subtask: Mapping[str, Any]) -> bool:
    """Whether the subtask rests on an error that auto-resume leaves to a person."""
    result = subtask["result"]
    return subtask["stage"] == "Paused" and bool(result and result["errors"]) and not result["detail"]


def _units(status: Mapping[str, Any]) -> list[str]:
    return [str(subtask["unit"]) for subtask in _subtasks(status)]


def _syncs(status: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [subtask["sync"] for subtask in _subtasks(status) if subtask.get("sync")]


def _synced(status: Mapping[str, Any]) -> list[bool]:
    return [bool((subtask.get("sync") or {}).get("synced")) for subtask in _subtasks(status)]


def _line(status: Mapping[str, Any], transactions: int) -> str:
    """One line of progress: what each source is at, and how busy the shops are."""
    parts = []
    for source in status["sources"]:
        name = source["sourceStatus"]["source"]
        for subtask in source["subTaskStatus"]:
            unit, stage = subtask["unit"], subtask["stage"]
            detail = subtask.get(str(unit).lower()) or {}
            if unit == "Sync":
                lag = detail.get("secondsBehindMaster")
                told = f"{detail.get('totalRows', 0)} rows, {detail.get('recentRps', 0)}/s"
                told += "" if lag is None else f", lag {float(lag):.1f} s"
            else:
                told = f"{detail.get('progress', '')} {detail.get('finishedRows', '')}".strip()
            parts.append(f"{name} {unit}{'' if stage == 'Running' else ' ' + str(stage)}: {told}")
    return f"{' | '.join(parts)} | {transactions} source transactions"


def _of_two_shops(summary: Summary) -> list[tuple[str, str]]:
    """What only the story with a crash has."""
    if not summary.recovery_seconds:
        return []
    return [
        ("sync", f"{summary.sync_rows} rows since the last start of each process, {summary.sync_seconds:.1f} s"),
        ("recovery", f"{summary.recovery_seconds:.1f} s from SIGKILL to the next applied transaction"),
        ("catch up", f"{summary.catch_up_seconds:.1f} s after the workload stopped"),
    ]


def _print_summary(summary: Summary, seconds: float) -> None:
    transactions = sum(tally.transactions for tally in summary.tallies)
    written = sum(tally.rows for tally in summary.tallies)
    alters = sum(tally.alters for tally in summary.tallies)
    report = summary.report
    rate = summary.initial_rows / summary.load_seconds if summary.load_seconds else 0
    rows = [
        ("servers", f"{summary.flavor}, {counted(summary.upstreams, 'upstream')} into one target"),
        (
            "full load",
            f"{summary.initial_rows} rows in {summary.load_seconds:.1f} s, {rate:.0f} rows/s with Spark's start",
        ),
        ("workload", f"{transactions} transactions, {written} rows, {alters} ALTERs"),
        *_of_two_shops(summary),
        ("highest lag", f"{summary.worst_lag:.1f} s"),
        ("compared", "" if report is None else f"{report.rows} rows in {summary.compare_seconds:.1f} s"),
        ("result", "not compared" if report is None else "identical" if report.identical else "DIFFERENT"),
        ("in all", f"{seconds:.0f} s"),
    ]
    output.table("dmctl demo", ("what", "figure"), rows)
    if report is not None and not report.identical:
        output.print_line(str(report))


def main(arguments: Sequence[str]) -> int:
    """Run the demo; the exit status is 0 only when every row is identical."""
    parser = argparse.ArgumentParser(prog="dmctl demo", description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--flavor", choices=("mysql", "mariadb"), default="mysql", help="which servers (default mysql)")
    parser.add_argument("--keep", action="store_true", help="leave servers and task running in the end")
    parser.add_argument("--cut-over", action="store_true", help="one shop, which moves to the target and back")
    parser.add_argument("--rows", type=int, default=200_000, help="rows over both upstreams before the task starts")
    parser.add_argument("--rate", type=float, default=60.0, help="transactions a second of each shop")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long the shops sell while the task follows")
    parser.add_argument("--seed", type=int, default=int(time.time()) % 100_000, help="seed of the workload")
    options = parser.parse_args(arguments)
    began = time.monotonic()
    directory = Path(tempfile.mkdtemp(prefix="dm-demo-"))
    try:
        demo = (CutOverRun if options.cut_over else DemoRun)(
            directory,
            flavor=options.flavor,
            rows=options.rows,
            rate=options.rate,
            seed=options.seed,
            seconds=options.seconds,
        )
    except DMError:  # no server is installed
        directory.rmdir()
        raise
    running = failed = False
    try:
        failed = not demo.run()
        _print_summary(demo.summary, time.monotonic() - began)
        if options.keep:
            demo.leave_running()
            running = True
        return 1 if failed else 0
    except RequestRefused as refused:
        failed = True
        output.print_error(refused.report)
        return 1
    except DMError as error:
        failed = True
        output.print_error(error.report())
        return 1
    except KeyboardInterrupt:
        output.say("interrupted; ending the servers")
        return 130
    finally:
        if not running:
            demo.close(keep_logs=failed)


_MARKS: Final = ("finishedBytes", "finishedRows", "totalRows", "completedTables", "progress", "syncerBinlog")
"""Fields of a unit's status that move on with its work, and do not with time alone."""


class WaitLimit:
    """How long a demo waits: as long as something new is to be seen, however slow the machine is.

    What was seen before is nothing new, so a task that fails and begins again for ever is given up.
    """

    def __init__(self, seconds: float, clock: Clock) -> None:
        self._seconds = seconds
        self._clock = clock
        self._seen: set[Hashable] = set()
        self._last_new = clock.monotonic()

    def see(self, sight: Hashable) -> None:
        """Look at how things are."""
        if sight not in self._seen:
            self._seen.add(sight)
            self._last_new = self._clock.monotonic()

    @property
    def idle(self) -> float:
        """Seconds since something new was seen."""
        return self._clock.monotonic() - self._last_new

    @property
    def over(self) -> bool:
        """Whether nothing new has come for too long."""
        return self.idle > self._seconds


def sight_of(status: Mapping[str, Any]) -> Hashable:
    """How far each subtask of a `query-status` is."""
    return tuple(
        (source["sourceStatus"]["source"], subtask["unit"], *(str(detail.get(mark)) for mark in _MARKS))
        for source in status["sources"]
        for subtask in source["subTaskStatus"]
        for detail in (subtask.get(str(subtask["unit"]).lower()) or {},)
    )
