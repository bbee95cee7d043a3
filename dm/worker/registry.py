"""The sources and tasks that the daemon knows, and what of them it must still know after it was killed.

Files are kept as the user wrote them, text and all, and are read anew at every start, so that there is one place
where a file is understood. What the user wants (`intent`) and what was last seen (`stage`, `unit`, `result`) are
columns apart: the first is obeyed at the next start, the second is only shown until the subtask has reported again.
Progress is not here at all; it lives in the target, with the data.

Every change is one transaction with synchronous=FULL: when `dmctl` has said yes, it is on disk.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, cast

from dm import faults
from dm.errors import DMError
from dm.position import Position
from dm.sourcelog.stream.until import Until, until_from_json
from dm.stored_format import REGISTRY
from dm.task.subtask import Intent, Stage
from dm.unit import JSON, UnitName
from dm.verbs.declaration import ConfigFile

_SCHEMA = """
CREATE TABLE IF NOT EXISTS source (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL, text TEXT NOT NULL, directory TEXT NOT NULL, environment TEXT NOT NULL,
    relay_asked INTEGER NOT NULL, relay_intent TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS task (
    name TEXT PRIMARY KEY,
    file TEXT NOT NULL, text TEXT NOT NULL, directory TEXT NOT NULL, environment TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS subtask (
    task TEXT NOT NULL REFERENCES task ON DELETE CASCADE, source TEXT NOT NULL REFERENCES source,
    intent TEXT NOT NULL, stage TEXT NOT NULL, unit TEXT, result TEXT NOT NULL, until TEXT,
    PRIMARY KEY (task, source)
) STRICT;
CREATE TABLE IF NOT EXISTS validator (
    task TEXT NOT NULL REFERENCES task ON DELETE CASCADE, source TEXT NOT NULL,
    mode TEXT NOT NULL, running INTEGER NOT NULL, start TEXT NOT NULL,
    PRIMARY KEY (task, source)
) STRICT;
CREATE TABLE IF NOT EXISTS earlier_file (
    name TEXT PRIMARY KEY,
    file TEXT NOT NULL, text TEXT NOT NULL, directory TEXT NOT NULL, environment TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS prepared_task (
    name TEXT PRIMARY KEY,
    file TEXT NOT NULL, text TEXT NOT NULL, directory TEXT NOT NULL, environment TEXT NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS task_template (name TEXT PRIMARY KEY, task TEXT NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS disabled_source (id TEXT PRIMARY KEY REFERENCES source ON DELETE CASCADE) STRICT;
"""


# What `relay_asked` is in the database; 0 is of homes that had no more than the first two.
_ASKED: Final[Mapping[bool | None, int]] = {None: 0, True: 1, False: 2}

# stopped: by a person, who may do so as long as every task can read on from the source itself.
RelayIntent = Literal["running", "paused", "stopped"]


@dataclass(frozen=True, slots=True)
class SourceRecord:
    """A source, and what is wanted of its relay."""

    file: ConfigFile
    relay_asked: bool | None  # by start-relay, not by stop-relay; None: the file's `enable-relay` decides
    relay_intent: RelayIntent


@dataclass(frozen=True, slots=True)
class SubtaskRecord:
    """A task on a source: what is wanted and what was last seen."""

    intent: Intent
    stage: Stage
    unit: UnitName | None
    result: JSON
    until: Until | None = None  # where a person wants it to end


@dataclass(frozen=True, slots=True)
class ValidatorRecord:
    """The validator of a task on a source, as it is wanted."""

    mode: Literal["full", "fast"]
    running: bool
    start: Position | None = None  # where it begins if it has not begun yet; None: where the syncer is


class Registry:
    """The sqlite database of one daemon; any thread may call."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.RLock()
        with self._explained():
            path.touch(mode=0o600)
            path.chmod(0o600)  # before anything is in it: files may hold passwords
            self._database = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
            try:
                self._open()
            except DMError:
                self._database.close()
                raise

    def _open(self) -> None:
        ((stored,),) = self._database.execute("PRAGMA user_version").fetchall()
        stored = REGISTRY.demand_known(max(stored, 0), self._path)
        self._database.executescript(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA foreign_keys=ON; BEGIN IMMEDIATE;" + _SCHEMA
        )
        if stored < REGISTRY.number:  # 0: from before there were numbers, and perhaps from before there was `until`
            columns = self._database.execute("SELECT name FROM pragma_table_info('subtask')").fetchall()
            if ("until",) not in columns:
                self._database.execute("ALTER TABLE subtask ADD COLUMN until TEXT")
            self._database.execute(f"PRAGMA user_version = {REGISTRY.number}")
        self._database.execute("COMMIT")

    def close(self) -> None:
        """Give the file back."""
        with self._lock:
            self._database.close()

    def sources(self) -> dict[str, SourceRecord]:
        """All sources by their id."""
        rows = self._read("SELECT id, name, text, directory, environment, relay_asked, relay_intent FROM source")
        asked = {number: said for said, number in _ASKED.items()}
        return {
            str(row[0]): SourceRecord(_file(row[1:5]), asked[cast(int, row[5])], cast(RelayIntent, row[6]))
            for row in rows
        }

    def tasks(self) -> dict[str, ConfigFile]:
        """All task files by the task's name."""
        rows = self._read("SELECT name, file, text, directory, environment FROM task")
        return {str(row[0]): _file(row[1:5]) for row in rows}

    def subtasks(self) -> dict[tuple[str, str], SubtaskRecord]:
        """All subtasks by task and source."""
        rows = self._read("SELECT task, source, intent, stage, unit, result, until FROM subtask")
        return {
            (str(row[0]), str(row[1])): SubtaskRecord(
                cast(Intent, row[2]),
                cast(Stage, row[3]),
                cast(UnitName | None, row[4]),
                json.loads(str(row[5])),
                None if row[6] is None else until_from_json(json.loads(str(row[6]))),
            )
            for row in rows
        }

    def validators(self) -> dict[tuple[str, str], ValidatorRecord]:
        """All validators by task and source."""
        rows = self._read("SELECT task, source, mode, running, start FROM validator")
        return {
            (str(row[0]), str(row[1])): ValidatorRecord(
                cast(Literal["full", "fast"], row[2]), bool(row[3]), _place(json.loads(str(row[4])))
            )
            for row in rows
        }

    def put_validator(self, task: str, source: str, record: ValidatorRecord) -> None:
        """Note what is wanted of a validator."""
        start = None if record.start is None else record.start.to_json()
        with self._transaction():
            self._database.execute(
                "INSERT INTO validator VALUES (?, ?, ?, ?, ?) ON CONFLICT (task, source) DO UPDATE SET"
                " mode = excluded.mode, running = excluded.running, start = excluded.start",
                (task, source, record.mode, int(record.running), json.dumps(start)),
            )

    def settings(self) -> dict[str, str]:
        """The settings of the daemon that a person has changed."""
        return {str(name): str(value) for name, value in self._read("SELECT name, value FROM setting")}

    def put_settings(self, settings: Mapping[str, str]) -> None:
        """Note settings of the daemon."""
        with self._transaction():
            for name, value in settings.items():
                self._database.execute(
                    "INSERT INTO setting VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
                    (name, value),
                )

    def put_sources(self, files: Mapping[str, ConfigFile]) -> None:
        """Add these sources, all or none; one that is there gets the new file."""
        with self._transaction():
            for source, file in files.items():
                self._database.execute(
                    "INSERT INTO source VALUES (?, ?, ?, ?, ?, 0, 'running') ON CONFLICT (id) DO UPDATE SET "
                    "name = excluded.name, text = excluded.text, directory = excluded.directory, "
                    "environment = excluded.environment",
                    (source, *_columns(file)),
                )

    def disabled_sources(self) -> frozenset[str]:
        """The sources on which DM's OpenAPI starts no task."""
        return frozenset(str(row[0]) for row in self._read("SELECT id FROM disabled_source"))

    def set_enabled(self, source: str, *, enabled: bool) -> None:
        """Note whether DM's OpenAPI may start tasks on a source."""
        change = (
            "DELETE FROM disabled_source WHERE id = ?"
            if enabled
            else "INSERT OR IGNORE INTO disabled_source VALUES (?)"
        )
        with self._transaction():
            self._database.execute(change, (source,))

    def remove_source(self, source: str) -> None:
        """Forget a source that no task uses."""
        with self._transaction():
            self._database.execute("DELETE FROM source WHERE id = ?", (source,))

    def set_relay(self, source: str, *, asked: bool | None, intent: RelayIntent) -> None:
        """Note what is wanted of a source's relay."""
        with self._transaction():
            self._database.execute(
                "UPDATE source SET relay_asked = ?, relay_intent = ? WHERE id = ?", (_ASKED[asked], intent, source)
            )

    def put_task(self, name: str, file: ConfigFile, sources: Mapping[str, Until | None]) -> None:
        """Add a task on these sources, to run, each until it is there; on other sources it stays as it is."""
        with self._transaction():
            self._database.execute(
                "INSERT INTO task VALUES (?, ?, ?, ?, ?) ON CONFLICT (name) DO UPDATE SET file = excluded.file, "
                "text = excluded.text, directory = excluded.directory, environment = excluded.environment",
                (name, *_columns(file)),
            )
            for source, until in sources.items():
                self._database.execute(
                    "INSERT INTO subtask (task, source, intent, stage, unit, result, until)"
                    " VALUES (?, ?, 'running', 'New', NULL, 'null', ?)",
                    (name, source, None if until is None else json.dumps(until.to_json())),
                )

    def prepared_tasks(self) -> dict[str, ConfigFile]:
        """The files of tasks that were created and never started, by the task's name."""
        rows = self._read("SELECT name, file, text, directory, environment FROM prepared_task")
        return {str(row[0]): _file(row[1:5]) for row in rows}

    def put_prepared_task(self, name: str, file: ConfigFile | None) -> None:
        """Keep the file of a task that is not started, or forget it."""
        with self._transaction():
            self._database.execute("DELETE FROM prepared_task WHERE name = ?", (name,))
            if file is not None:
                self._database.execute("INSERT INTO prepared_task VALUES (?, ?, ?, ?, ?)", (name, *_columns(file)))

    def templates(self) -> dict[str, str]:
        """The templates of DM's OpenAPI, as JSON."""
        return {str(name): str(task) for name, task in self._read("SELECT name, task FROM task_template")}

    def put_template(self, name: str, task: str | None) -> None:
        """Keep a template, or forget it."""
        with self._transaction():
            self._database.execute("DELETE FROM task_template WHERE name = ?", (name,))
            if task is not None:
                self._database.execute("INSERT INTO task_template VALUES (?, ?)", (name, task))

    def update_task(self, name: str, file: ConfigFile, *, keep: bool) -> None:
        """Give a task another file; `keep`: the one of before stays known."""
        with self._transaction():
            if keep:
                self._database.execute("DELETE FROM earlier_file WHERE name = ?", (name,))
                self._database.execute("INSERT INTO earlier_file SELECT * FROM task WHERE name = ?", (name,))
            self._database.execute(
                "UPDATE task SET file = ?, text = ?, directory = ?, environment = ? WHERE name = ?",
                (*_columns(file), name),
            )

    def earlier_file(self, name: str) -> ConfigFile | None:
        """The file that a task had before tables were added to its list."""
        rows = self._read("SELECT name, file, text, directory, environment FROM earlier_file")
        return next((_file(row[1:5]) for row in rows if row[0] == name), None)

    def remove_subtask(self, task: str, source: str) -> None:
        """Forget a subtask, and the task with its last one."""
        with self._transaction():
            self._database.execute("DELETE FROM subtask WHERE task = ? AND source = ?", (task, source))
            self._database.execute("DELETE FROM validator WHERE task = ? AND source = ?", (task, source))
            self._database.execute(
                "DELETE FROM task WHERE name = ? AND NOT EXISTS (SELECT 1 FROM subtask WHERE task = ?)", (task, task)
            )

    def record(self, task: str, source: str, seen: SubtaskRecord) -> None:
        """Note a subtask's intent and what is the case; where it is to end stays."""
        with self._transaction():
            self._database.execute(
                "UPDATE subtask SET intent = ?, stage = ?, unit = ?, result = ? WHERE task = ? AND source = ?",
                (seen.intent, seen.stage, seen.unit, json.dumps(seen.result), task, source),
            )
        faults.hit("worker.after_state_change")

    def _read(self, query: str) -> list[tuple[object, ...]]:
        with self._lock, self._explained():
            return self._database.execute(query).fetchall()

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock, self._explained():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._database.execute("COMMIT")
            except BaseException:
                if self._database.in_transaction:  # a full disk may have ended it already
                    self._database.execute("ROLLBACK")
                raise

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise DMError("registry-unusable", path=self._path) from error


def _place(stored: JSON) -> Position | None:
    return None if stored is None else Position.from_json(stored)


def _columns(file: ConfigFile) -> tuple[str, str, str, str]:
    return file.name, file.text, file.directory, json.dumps(dict(file.environment))


def _file(columns: Sequence[object]) -> ConfigFile:
    name, text, directory, environment = columns
    return ConfigFile(str(name), str(text), str(directory), json.loads(str(environment)))
