"""A support bundle: what a stranger needs to understand this daemon, in one tar.gz.

It goes to people who may see neither the data nor the passwords, so it is built from texts that have none, never from
a copy of a file of ours. Names of tables and columns, addresses and users stay. A text that is known to be a name, a
place or a time stays, too. Of every other text the literals go, so that a field that is added later is safe before
anybody thinks of it. Logs are written without values by now (dm/task/log.py), but lines of older versions and of the
libraries below are in the same files, so each line is treated like any other text.

A person asks for it when something is wrong. So each section is collected in a thread of its own, and after `_SECONDS`
the bundle is closed with what there is: a loop that is stuck, a server that says nothing or a disk that hangs costs its
own section. Nothing is asked of the tasks but the status that `query-status` asks for. Sizes have bounds, too: the end
of each log is kept, and what does not fit is named in `problems.txt`.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import platform
import queue
import re
import sqlite3
import sys
import tarfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, Final

import structlog
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import Event

from dm.clock import Clock
from dm.config import SubtaskConfig
from dm.config.load import masked
from dm.errors import DMError
from dm.errors.without_values import report_without_values, told, without_literals, words_without_values
from dm.spark.java import find_java_home, version_text
from dm.unit import JSON
from dm.worker.home import Home
from dm.worker.installed import installed_version
from dm.worker.loop import Loop
from dm.worker.metrics import Metrics
from dm.worker.query_status import all_tasks, source_line, subtask_status
from dm.worker.supervisor import Supervisor

_SECONDS: Final = 40.0  # of all sections together
_STATUS_SECONDS: Final = 5.0
_MEMBER_BYTES: Final = 4 << 20
_LOG_BYTES: Final = 1 << 20  # the end of each file
_ALL_BYTES: Final = 64 << 20  # before compression
_SERVERS_AT_ONCE: Final = 8
_MOST_FILES: Final = 5000  # of a listing

# Texts that are names, places, times or words of ours, by the key that they stand under.
_NAMES: Final = frozenset(
    {
        "name", "taskName", "taskStatus", "task", "source", "sources", "worker", "stage", "unit", "intent", "mode",
        "masterBinlog", "masterBinlogGtid", "syncerBinlog", "syncerBinlogGtid", "relaySubDir", "relayBinlog",
        "relayBinlogGtid", "readBinlog", "validatorBinlog", "validatorBinlogGtid", "checkpoint", "until", "binlogType",
        "sourceAddress", "accelerator", "table", "tables", "schema", "target", "unsynced", "othersUnsynced", "since",
        "state", "file", "directory", "host", "user", "version", "process", "path", "timestamp", "level", "library",
        "listEntriesWithoutTables", "progress", "time", "address", "label", "outcome", "run",
        "place", "home", "who", "verb", "request", "number", "status", "thread", "reasons", "safeMode", "running",
        "lane", "kind", "uuid", "sub-directory", "binlog", "gtid",
    }
)  # fmt: skip
_OPTIONS: Final = frozenset({"targetSession"})  # objects whose texts are variables of a server
_CODED: Final = re.compile(r"\[code=\d+:class=[\w-]+:scope=[\w-]+:level=\w+\]")
_FRAME: Final = re.compile(r'\s+File "[^"]*", line \d+, in \S+|\s*at [\w.$<>/]+\([\w.: ]*\)')

Describe = Callable[[SubtaskConfig, Callable[[], bool]], dict[str, JSON]]


class Collection:
    """One bundle in the making."""

    def __init__(self, loop: Loop, supervisor: Supervisor, describe: Describe, metrics: Metrics, clock: Clock) -> None:
        self._loop, self._supervisor = loop, supervisor
        self._describe, self._metrics, self._clock = describe, metrics, clock
        self._home: Home = supervisor.home
        self._until = clock.monotonic() + _SECONDS
        self._members: dict[str, bytes] = {}
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self.problems: list[str] = []
        moment = datetime.fromtimestamp(clock.time(), UTC).strftime("%Y%m%dT%H%M%SZ")
        self.name = f"dm-support-{moment}.tar.gz"

    def packed(self) -> bytes:
        """The archive."""
        sections: list[tuple[str, Callable[[], None]]] = [
            ("threads", self._threads), ("versions", self._versions), ("logs", self._logs),
            ("settings", self._settings), ("registry", self._registry), ("files", self._files),
            ("metrics", self._numbers), ("status", self._status), ("servers", self._servers),
        ]  # fmt: skip
        threads = [
            threading.Thread(target=self._guarded, args=section, name=f"bundle {section[0]}", daemon=True)
            for section in sections
        ]
        for thread in threads:
            thread.start()
        for thread, (name, _) in zip(threads, sections, strict=True):
            thread.join(max(0.0, self._until - self._clock.monotonic()))
            if thread.is_alive():
                self._problem(f"{name}: not all of it was there in {_SECONDS:g} s")
        return self._archive()

    def _guarded(self, name: str, collect: Callable[[], None]) -> None:
        try:
            collect()
        except (DMError, OSError, sqlite3.Error) as error:
            self._problem(f"{name}: {told(error)}")
        except Exception as defect:  # the rest of the bundle is what shows the defect
            structlog.get_logger().exception("a section of a support bundle", section=name)
            self._problem(f"{name}: {type(defect).__name__}")

    def _archive(self) -> bytes:
        self._closed.set()
        with self._lock:
            members = {**self._members, "problems.txt": "".join(f"{line}\n" for line in self.problems).encode()}
        packed, now = io.BytesIO(), int(self._clock.time())
        root = self.name.removesuffix(".tar.gz")
        with (
            gzip.GzipFile(fileobj=packed, mode="wb", mtime=now) as zipped,
            tarfile.open(fileobj=zipped, mode="w") as tar,
        ):
            for name, content in sorted(members.items()):
                entry = tarfile.TarInfo(f"{root}/{name}")
                entry.size, entry.mode, entry.mtime = len(content), 0o600, now
                tar.addfile(entry, io.BytesIO(content))
        return packed.getvalue()

    def _in_time(self) -> bool:
        return not self._closed.is_set() and self._clock.monotonic() < self._until

    def _add(self, name: str, text: str, limit: int = _MEMBER_BYTES) -> None:
        content = text.encode("utf-8", "backslashreplace")
        with self._lock:
            room = min(limit, _ALL_BYTES - sum(map(len, self._members.values())))
            if not self._closed.is_set():
                self._members[name] = content[: max(0, room)]
        if len(content) > room:
            self._problem(f"{name}: {len(content)} bytes, cut")

    def _add_json(self, name: str, value: object) -> None:
        self._add(name, json.dumps(value, indent=1, ensure_ascii=False, default=str) + "\n")

    def _problem(self, text: str) -> None:
        with self._lock:
            self.problems.append(text)

    # ---- sections ----

    def _threads(self) -> None:
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        parts = [
            f"{names.get(number, number)}\n{''.join(traceback.format_stack(frame))}"
            for number, frame in sys._current_frames().items()
        ]
        self._add("threads.txt", "\n".join(parts))
        hosts = self._loop.call(self._supervisor.hosts.processes)
        pids = {"dm-worker": os.getpid(), **hosts}
        self._add("processes.txt", "\n".join(_process(name, pid) for name, pid in pids.items()))

    def _versions(self) -> None:
        try:
            java = version_text(find_java_home(self._home.work) / "bin" / "java")
        except DMError as error:
            java = told(error)
        self._add_json(
            "versions.json",
            {
                "dm": installed_version(),
                "python": sys.version,
                "java": java,
                "system": _system(),
                "machine": f"{platform.machine()}, processors: {os.cpu_count()}",
                "packages": sorted({f"{one.name} {one.version}" for one in distributions()}),
            },
        )

    def _logs(self) -> None:
        for path in (*sorted(self._home.logs.iterdir()), self._home.history / "timeline.jsonl"):
            if self._in_time() and path.is_file():
                lines = _tail(path).decode("utf-8", "replace").splitlines()
                self._add(f"log/{path.name}", "".join(f"{clean_line(line)}\n" for line in lines), 2 * _LOG_BYTES)

    def _settings(self) -> None:
        self._add_json("settings.json", self._supervisor.registry.settings())

        def files() -> dict[str, str]:
            found = {f"sources/{name}.yaml": one.file.text for name, one in self._supervisor.sources.items()}
            return found | {f"tasks/{name}.yaml": one.file.text for name, one in self._supervisor.tasks.items()}

        for name, text in self._loop.call(files).items():
            self._add(name, clean_file(text))

    def _registry(self) -> None:
        """What is wanted and what was last seen; the files are elsewhere, without their secrets."""
        registry = self._supervisor.registry
        subtasks = {
            f"{task} on {source}": {
                "intent": seen.intent, "stage": seen.stage, "unit": seen.unit, "result": clean(seen.result),
                "until": None if seen.until is None else str(seen.until),
            }
            for (task, source), seen in registry.subtasks().items()
        }  # fmt: skip
        relays = {
            name: {"asked": record.relay_asked, "relay_intent": record.relay_intent}
            for name, record in registry.sources().items()
        }
        validators = {
            f"{task} on {source}": {"mode": record.mode, "running": record.running}
            for (task, source), record in registry.validators().items()
        }
        self._add_json("registry.json", {"subtasks": subtasks, "relays": relays, "validators": validators})

    def _files(self) -> None:
        directories = self._loop.call(
            lambda: {name: self._supervisor.relay_directory(name) for name in self._supervisor.sources}
        )
        self._add("files.txt", "".join(_listing(self._home.directory)))
        for name, directory in directories.items():
            index = directory / "server-uuid.index"
            known = index.read_text(encoding="utf-8", errors="replace") if index.exists() else "no relay files\n"
            self._add(f"relay/{name}.txt", known + "".join(_listing(directory)))

    def _numbers(self) -> None:
        self._add("metrics.txt", self._metrics.text().decode())

    def _status(self) -> None:
        """As `query-status` has it, of all tasks after one wait."""
        supervisor = self._supervisor
        asked = self._loop.call(
            lambda: [(job, job.refresh()) for task in supervisor.tasks.values() for job in task.jobs.values()]
        )
        self._loop.wait_until(lambda: all(job.fresh(request) for job, request in asked), _STATUS_SECONDS)

        def look() -> Mapping[str, JSON]:
            return {
                "tasks": all_tasks(supervisor, ())["tasks"],
                "sources": [source_line(supervisor, name) for name in supervisor.sources],
                "subtasks": [
                    {"source": job.source, **subtask_status(supervisor, job, request)} for job, request in asked
                ],
            }

        for name, part in self._loop.call(look).items():
            self._add_json(f"status/{name}.json", clean(part))

    def _servers(self) -> None:
        supervisor = self._supervisor

        def look() -> dict[str, SubtaskConfig]:
            known = supervisor.source_configs()
            return {
                f"{name}/{source}": task.config.subtask(source, known)
                for name, task in supervisor.tasks.items()
                if not isinstance(task.config, DMError)
                for source in task.jobs
                if source in known
            }

        waiting: queue.SimpleQueue[tuple[str, SubtaskConfig]] = queue.SimpleQueue()
        for each in self._loop.call(look).items():
            waiting.put(each)

        def work() -> None:
            while self._in_time():
                try:
                    self._server(*waiting.get_nowait())
                except queue.Empty:
                    return

        threads = [threading.Thread(target=work, name="bundle server", daemon=True) for _ in range(_SERVERS_AT_ONCE)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, self._until - self._clock.monotonic()))
        if not waiting.empty():
            self._problem(f"servers: {waiting.qsize()} subtasks were not asked in time")

    def _server(self, name: str, config: SubtaskConfig) -> None:
        self._guarded(
            f"servers of {name}",
            lambda: self._add_json(f"servers/{name}.json", self._describe(config, self._in_time)),
        )


def _tail(path: Path) -> bytes:
    """The last whole lines of a log."""
    with path.open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(0, size - _LOG_BYTES))
        content = file.read(_LOG_BYTES)
    return content if size <= _LOG_BYTES else content.partition(b"\n")[2]


def _process(name: str, pid: int) -> str:
    """State, memory and threads of a process, as its user may see them."""
    lines = [f"{name} (pid {pid})"]
    try:
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii", errors="replace")
        wanted = ("State:", "VmRSS:", "VmHWM:", "Threads:", "FDSize:")
        lines += [f"  {line}" for line in status.splitlines() if line.startswith(wanted)]
        for thread in sorted(Path(f"/proc/{pid}/task").iterdir()):
            fields = (thread / "stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
            called = (thread / "comm").read_text(encoding="utf-8", errors="replace").strip()
            lines.append(f"  {called}: state {fields[0]}, user and system ticks {fields[11]} {fields[12]}")
    except OSError as error:
        lines.append(f"  it is not to be seen: {error.strerror}")
    return "\n".join(lines) + "\n"


def _system() -> str:
    try:
        named = platform.freedesktop_os_release().get("PRETTY_NAME", "")
    except OSError:
        named = ""
    return f"{named}, {platform.platform()}"


def _listing(root: Path) -> Iterator[str]:
    """Paths, sizes, modes and times of the files below a directory."""
    usage = os.statvfs(root) if root.exists() else None
    if usage is not None:
        yield f"disk: {usage.f_bavail * usage.f_frsize} of {usage.f_blocks * usage.f_frsize} bytes are free\n"
    count = 0
    for directory, below, files in os.walk(root):
        below.sort()
        for name in sorted(files):
            count += 1
            if count > _MOST_FILES:
                yield "and more\n"
                return
            path = Path(directory, name)
            try:
                found = path.lstat()
            except OSError:
                continue  # it has just gone
            changed = datetime.fromtimestamp(found.st_mtime, UTC).isoformat(timespec="seconds")
            yield f"{found.st_mode & 0o7777:04o} {found.st_size:>14} {changed} {path.relative_to(root)}\n"


def clean(value: object, key: str = "") -> Any:
    """What JSON holds, without values; errors become their kind."""
    if isinstance(value, Mapping):
        if "ErrCode" in value:
            return report_without_values(value)
        return {str(name): part if key in _OPTIONS else clean(part, str(name)) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean(part, key) for part in value]
    if isinstance(value, str):
        return value if key in _NAMES else without_literals(value)
    return value


def clean_line(line: str) -> str:
    """A line of a log."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return line if _FRAME.fullmatch(line) else without_literals(line)
    ours = "library" not in record
    return json.dumps({str(key): _logged(str(key), value, ours=ours) for key, value in record.items()})


def _logged(key: str, value: object, *, ours: bool) -> object:
    if key == "exception" and isinstance(value, str):
        return "\n".join(_traceback_lines(value))
    if key == "error" and isinstance(value, str):
        coded = _CODED.match(value)
        start = 0 if coded is None else coded.end()
        return value[:start] + without_literals(value[start:])
    if key == "event" and isinstance(value, str):
        return value if ours else words_without_values(value)
    return clean(value, key)


def _traceback_lines(text: str) -> Iterator[str]:
    """Places stay. A line of code or of a message is taken for a text like any other."""
    for line in text.splitlines():
        yield line if _FRAME.fullmatch(line) else without_literals(line)


def clean_file(text: str) -> str:
    """A source or task file without secrets, and without comments, since nobody knows what they hold."""
    try:
        events: list[Event] = list(YAML(typ="safe", pure=True).parse(masked(text)))
        written = io.StringIO()
        YAML(typ="safe", pure=True).emit(events, written)
        return written.getvalue()
    except YAMLError:
        return "# it can't be read as YAML\n"
