"""The registry of several hosts: the same tables, with etcd in the place of the disk as what counts.

The SQL of `Registry` stays what it is, so that there is one place where a change of the registry is understood. What
that SQL changes, triggers note by table and key. Before the change is committed here, the rows that were changed go to
etcd in one transaction, each as a key with its columns in JSON. etcd makes it if no other member has changed one of the
rows since this member has read it. Otherwise nothing has happened, and the verb says so.

What other members change, the mirror learns by its watch. It is taken over before the next statement reads. So a read
asks etcd for nothing.

The file on disk, `$DM_HOME/cluster.sqlite`, is a copy, made anew at each start. It is there for the day on which etcd
has lost its data: `dmctl cluster import` makes a cluster of it. Settings of the daemon (`config worker`) are of one
host and stay there.
"""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

from dm.cluster.etcd import KeyChange, in_parts
from dm.cluster.mirror import Mirror
from dm.errors import DMError
from dm.sourcelog.stream.until import Until
from dm.verbs.declaration import ConfigFile
from dm.worker.registry import Registry, SubtaskRecord

ROWS: Final = "registry/"
# By table: the columns of its key, and the others.
_TABLES: Final[Mapping[str, tuple[tuple[str, ...], tuple[str, ...]]]] = {
    "source": (("id",), ("name", "text", "directory", "environment", "relay_asked", "relay_intent")),
    "task": (("name",), ("file", "text", "directory", "environment")),
    "subtask": (("task", "source"), ("intent", "stage", "unit", "result", "until")),
    "validator": (("task", "source"), ("mode", "running", "start")),
    "earlier_file": (("name",), ("file", "text", "directory", "environment")),
    "prepared_task": (("name",), ("file", "text", "directory", "environment")),
    "task_template": (("name",), ("task",)),
    "disabled_source": (("id",), ()),
}


class SharedRegistry(Registry):
    """The registry of a cluster, as one member has it; any thread may call."""

    def __init__(self, path: Path, mirror: Mirror, demand_owned: Callable[[str], None]) -> None:
        self._mirror = mirror
        self._demand_owned = demand_owned
        self._stale: set[str] = set()
        self._stale_lock = threading.Lock()
        self._revisions: dict[str, int] = {}  # of the rows as they are in the tables
        super().__init__(path)
        with self._lock, self._explained():
            self._database.executescript(_triggers())
            for table in reversed([*_TABLES]):  # those that refer to others first
                self._database.execute(f"DELETE FROM {table}")
            self._database.execute("DELETE FROM temp.changed")
        mirror.tell(self._told)
        self._told(frozenset(f"{ROWS}{key}" for key in mirror.below(ROWS)))

    def _told(self, keys: frozenset[str]) -> None:
        with self._stale_lock:
            self._stale |= {key for key in keys if key.startswith(ROWS)}

    def record(self, task: str, source: str, seen: SubtaskRecord) -> None:
        """Note it of a source that is this member's; raises DMError for another's, which its owner tells."""
        self._demand_owned(source)
        super().record(task, source, seen)

    def put_task(self, name: str, file: ConfigFile, sources: Mapping[str, Until | None]) -> None:
        """Add a task on sources that are this member's; raises DMError for another's.

        Of very many sources a part may be there where etcd fails in between, and a part only.
        """
        for source in sources:
            self._demand_owned(source)
        for part in [*in_parts(sources.items())] or [[]]:
            super().put_task(name, file, dict(part))

    def put_sources(self, files: Mapping[str, ConfigFile]) -> None:
        """Add these sources; of very many a part may be there where etcd fails in between, and a part only."""
        for part in in_parts(files.items()):
            super().put_sources(dict(part))

    def _read(self, query: str) -> list[tuple[object, ...]]:
        with self._lock:
            self._catch_up()
            return super()._read(query)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        with self._lock:
            self._catch_up()
            written: Mapping[str, int] = {}
            with super()._transaction():
                yield
                written = self._publish()
            self._revisions |= written

    def _publish(self) -> Mapping[str, int]:
        """Have etcd make the change; raises DMError where it does not, and then nothing is changed here either.

        Gives the revision of each row by its key, as the change itself has made it: the mirror may know a newer one of
        another member by then, which is still to be taken over.
        """
        changes = [
            KeyChange(f"{ROWS}{_key(table, key)}", self._row(table, key))
            for table, key in _changed(self._database.execute("SELECT DISTINCT its_table, its_key FROM temp.changed"))
        ]
        self._database.execute("DELETE FROM temp.changed")
        if not changes:
            return {}
        expected = {change.key: self._revisions.get(change.key, 0) for change in changes}
        revision = self._mirror.write(expected, changes)
        if not revision:
            raise DMError("registry-changed")
        return {change.key: 0 if change.value is None else revision for change in changes}

    def _catch_up(self) -> None:
        """Take over what other members have changed; what can't be taken over is tried again the next time."""
        with self._stale_lock:
            stale, self._stale = self._stale, set()
        try:
            self._take_over_all(stale)
        except BaseException:
            self._told(frozenset(stale))
            raise

    def _take_over_all(self, stale: Iterable[str]) -> None:
        found = {key: self._mirror.get(key) for key in stale}
        newer = {
            key: entry
            for key, entry in found.items()
            if (0 if entry is None else entry.revision) != self._revisions.get(key, 0)
        }
        if not newer:
            return
        with self._explained():
            # Of rows that come together some may be here before those that they refer to.
            self._database.execute("PRAGMA foreign_keys=OFF")
            try:
                with super()._transaction():
                    for key, entry in newer.items():
                        self._take_over(key, None if entry is None else entry.value)
                    self._database.execute("DELETE FROM temp.changed")
            finally:
                self._database.execute("PRAGMA foreign_keys=ON")
        self._revisions |= {key: 0 if entry is None else entry.revision for key, entry in newer.items()}

    def _take_over(self, key: str, value: str | None) -> None:
        table = key.removeprefix(ROWS).partition("/")[0]
        if table not in _TABLES:
            return  # of a newer program
        names, others = _TABLES[table]
        if value is None:
            if key in self._revisions:
                self._delete(table, key)
            return
        row = json.loads(value)
        columns = [*names, *others]
        places = ", ".join("?" for _ in columns)
        self._database.execute(
            f"INSERT OR REPLACE INTO {table} ({', '.join(columns)}) VALUES ({places})", [row[name] for name in columns]
        )

    def _delete(self, table: str, key: str) -> None:
        names = _TABLES[table][0]
        for found in self._database.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall():
            if f"{ROWS}{_key(table, found)}" == key:
                where = " AND ".join(f"{name} = ?" for name in names)
                self._database.execute(f"DELETE FROM {table} WHERE {where}", found)

    def _row(self, table: str, key: Sequence[str]) -> str | None:
        return _row(self._database, table, key)


def rows_of(database: sqlite3.Connection) -> Iterator[tuple[str, str]]:
    """All rows of a registry, as etcd has them: key and value."""
    for table, (names, _) in _TABLES.items():
        for key in database.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall():
            value = _row(database, table, key)
            assert value is not None
            yield f"{ROWS}{_key(table, key)}", value


def put_rows(database: sqlite3.Connection, values: Iterable[tuple[str, str]]) -> None:
    """Rows as etcd has them into the empty tables of a registry."""
    by_table: dict[str, list[Mapping[str, object]]] = {table: [] for table in _TABLES}
    for key, value in values:
        table = key.removeprefix(ROWS).partition("/")[0]
        if table in by_table:
            by_table[table].append(json.loads(value))
    for table, rows in by_table.items():  # in the order in which they refer to each other
        for row in rows:
            columns = [*_TABLES[table][0], *_TABLES[table][1]]
            places = ", ".join("?" for _ in columns)
            database.execute(
                f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", [row[name] for name in columns]
            )


def _row(database: sqlite3.Connection, table: str, key: Sequence[str]) -> str | None:
    names, others = _TABLES[table]
    columns = [*names, *others]
    where = " AND ".join(f"{name} = ?" for name in names)
    found = database.execute(f"SELECT {', '.join(columns)} FROM {table} WHERE {where}", key).fetchone()
    return None if found is None else json.dumps(dict(zip(columns, found, strict=True)), ensure_ascii=False)


def _changed(rows: Iterable[tuple[str, str]]) -> list[tuple[str, list[str]]]:
    return [(table, json.loads(key)) for table, key in rows]


def _key(table: str, key: Sequence[str]) -> str:
    return "/".join([table, *(quote(part, safe="") for part in key)])


def _triggers() -> str:
    """What notes the keys of changed rows, those of cascades, too."""
    made = ["CREATE TEMP TABLE changed (its_table TEXT NOT NULL, its_key TEXT NOT NULL);"]
    for table, (names, _) in _TABLES.items():
        for event, row in (("INSERT", "NEW"), ("UPDATE", "NEW"), ("DELETE", "OLD")):
            key = ", ".join(f"{row}.{name}" for name in names)
            made.append(
                f"CREATE TEMP TRIGGER {table}_{event.lower()} AFTER {event} ON main.{table} BEGIN "
                f"INSERT INTO changed VALUES ('{table}', json_array({key})); END;"
            )
    return "\n".join(made)
