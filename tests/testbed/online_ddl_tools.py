"""What gh-ost and pt-online-schema-change send to a server while they change a table, written from their documentation.

The tools themselves are not needed: what a replica sees of them is their statements and the rows these write. Sources:
gh-ost, doc/cheatsheet.md, doc/cut-over.md and go/logic/applier.go; Percona Toolkit, pt-online-schema-change's manual.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import closing
from typing import Literal

from dm.demo.servers import ThrowawayServer
from dm.ident import Ident, TableName
from tests.testbed.sync import wait_until

Tool = Literal["gh-ost", "gh-ost two-step", "pt-osc"]
TOOLS: tuple[Tool, ...] = ("gh-ost", "gh-ost two-step", "pt-osc")
# The names of their tables, as a task's rules say them.
SHADOW = (r"^_(.+)_(?:new|gho)$",)
TRASH = (r"^_(.+)_(?:ghc|del|old)$",)


class OnlineChange:
    """One change of one table by one tool, step by step; `columns` are those that the copy shares with the table."""

    def __init__(self, tool: Tool, server: ThrowawayServer, table: TableName, columns: Sequence[str]) -> None:
        self._tool = tool
        self._server = server
        self.table = table
        self._columns = ", ".join(Ident(column).sql for column in columns)
        self._key = Ident(columns[0]).sql
        self._new = ", ".join(f"NEW.{Ident(column).sql}" for column in columns)
        self.ghost = self._beside("new" if tool == "pt-osc" else "gho")
        self.trash = self._beside("old" if tool == "pt-osc" else "del")
        self._journal = self._beside("ghc")

    def _beside(self, suffix: str) -> TableName:
        return TableName(self.table.schema, f"_{self.table.table}_{suffix}")

    def _run(self, *statements: str) -> None:
        self._server.execute(f"USE {Ident(self.table.schema).sql}", *statements)

    def create(self) -> None:
        """Make the ghost table."""
        real, ghost = self.table.sql, self.ghost.sql
        if self._tool == "pt-osc":
            text = str(self._server.query(f"SHOW CREATE TABLE {real}")[0][1])
            own = f"CREATE TABLE {Ident(self.table.table).sql}"
            self._run(text.replace(own, f"CREATE TABLE {ghost}", 1))
            return
        self._run(
            f"drop /* gh-ost */ table if exists {ghost}",
            f"drop /* gh-ost */ table if exists {self._journal.sql}",
            f"create /* gh-ost */ table {self._journal.sql} (id bigint auto_increment, last_update timestamp not null"
            " DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, hint varchar(64) charset ascii not null,"
            " value varchar(4096) charset ascii not null, primary key (id), unique key hint_uidx (hint))"
            " auto_increment=256",
            f"create /* gh-ost */ table {ghost} like {real}",
        )

    def alter(self, *alterations: str) -> None:
        """The user's changes, on the ghost."""
        mark = "" if self._tool == "pt-osc" else "/* gh-ost */ "
        self._run(*(f"ALTER {mark}TABLE {self.ghost.sql} {alteration}" for alteration in alterations))

    def copy(self) -> None:
        """Copy the rows, and let what is written meanwhile follow."""
        real, ghost, columns, key = self.table.sql, self.ghost.sql, self._columns, self._key
        if self._tool == "pt-osc":
            gone = f"DELETE IGNORE FROM {ghost} WHERE {ghost}.{key} <=> OLD.{key}"
            put = f"REPLACE INTO {ghost} ({columns}) VALUES ({self._new})"
            moved = f"DELETE IGNORE FROM {ghost} WHERE NOT (OLD.{key} <=> NEW.{key}) AND {ghost}.{key} <=> OLD.{key}"
            self._run(
                f"CREATE TRIGGER {self._trigger('del')} AFTER DELETE ON {real} FOR EACH ROW {gone}",
                f"CREATE TRIGGER {self._trigger('upd')} AFTER UPDATE ON {real} FOR EACH ROW BEGIN {moved}; {put}; END",
                f"CREATE TRIGGER {self._trigger('ins')} AFTER INSERT ON {real} FOR EACH ROW {put}",
                f"INSERT LOW_PRIORITY IGNORE INTO {ghost} ({columns}) SELECT {columns} FROM {real}"
                " LOCK IN SHARE MODE /*pt-online-schema-change 4711 copy table*/",
            )
            return
        state = f"insert /* gh-ost */ into {self._journal.sql} (hint, value) values ('state', 'Migrating')"
        self._run(
            f"{state} on duplicate key update last_update=NOW(), value=VALUES(value)",
            f"insert /* gh-ost */ ignore into {ghost} ({columns}) (select {columns} from {real} lock in share mode)",
        )

    def _trigger(self, kind: str) -> str:
        return f"{Ident(self.table.schema).sql}.{Ident(f'pt_osc_{self.table.table}_{kind}'[:64]).sql}"

    def cut_over(self) -> None:
        """Give the ghost the table's name."""
        real, ghost, trash = self.table.sql, self.ghost.sql, self.trash.sql
        if self._tool == "pt-osc":
            self._run(f"RENAME TABLE {real} TO {trash}, {ghost} TO {real}")
        elif self._tool == "gh-ost two-step":
            self._run(
                f"LOCK /* gh-ost */ TABLES {real} WRITE, {ghost} WRITE",
                *self._last_rows(),
                f"ALTER /* gh-ost */ TABLE {real} RENAME {trash}",
                f"ALTER /* gh-ost */ TABLE {ghost} RENAME {real}",
                "UNLOCK TABLES",
            )
        else:
            self._atomic_cut_over()

    def _last_rows(self) -> tuple[str, str]:
        """What gh-ost has read from the binlog by then, in one go."""
        copy = f"INSERT INTO {self.ghost.sql} ({self._columns}) SELECT {self._columns} FROM {self.table.sql}"
        return f"DELETE FROM {self.ghost.sql}", copy

    def _atomic_cut_over(self) -> None:
        """A sentry keeps the RENAME waiting until the rows are complete."""
        real, ghost, trash = self.table.sql, self.ghost.sql, self.trash.sql
        rename = f"rename /* gh-ost */ table {real} to {trash}, {ghost} to {real}"
        with closing(self._server.connect(database=self.table.schema)) as connection, connection.cursor() as locker:
            locker.execute(
                f"create /* gh-ost */ table {trash} (id int auto_increment primary key) engine=InnoDB"
                " comment='ghost-cut-over-sentry'"
            )
            locker.execute(f"lock /* gh-ost */ tables {real} write, {trash} write, {ghost} write")
            for statement in self._last_rows():
                locker.execute(statement)
            connection.commit()
            renamer = threading.Thread(target=self._run, args=(rename,))
            renamer.start()
            waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = %s AND state LIKE 'Waiting%%'"
            wait_until(lambda: self._server.query(waiting, (rename,))[0][0] == 1, "the RENAME waits")
            locker.execute(f"drop /* gh-ost */ table if exists {trash}")
            locker.execute("unlock tables")
            renamer.join()

    def clean(self) -> None:
        """Remove what is left."""
        if self._tool == "pt-osc":
            self._run(
                f"DROP TABLE IF EXISTS {self.trash.sql}",
                *(f"DROP TRIGGER IF EXISTS {self._trigger(kind)}" for kind in ("del", "upd", "ins")),
            )
        else:
            self._run(*(f"drop /* gh-ost */ table if exists {one.sql}" for one in (self._journal, self.trash)))

    def all(self, *alterations: str) -> None:
        """The whole change."""
        self.create()
        self.alter(*alterations)
        self.copy()
        self.cut_over()
        self.clean()
