"""DM's table of what a statement on real, ghost and trash tables comes to."""

from __future__ import annotations

import pytest

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from dm.position import Position
from dm.progress.intent import OnlineRecord, StoredStatement
from dm.rules.router import OnlineTables
from dm.syncer.ddl.barrier import prove
from dm.syncer.ddl.online_ddl import OnlineDdl
from dm.syncer.ddl.plan import CutOver, Execute, Forget, MovedAway, PieceStep, Step

TABLES = OnlineTables((r"^_(.+)_(?:new|gho)$",), (r"^_(.+)_(?:ghc|del|old)$",))
CONTEXT = SourceContext("mysql", 90704, "s")
PLACE = Position("uuid", "binlog.000001", 100, GtidSet.empty("mysql"))
T, GHOST, TRASH = (TableName("s", name) for name in ("t", "_t_gho", "_t_del"))
SESSION = QuerySession(sql_mode=1, charset=(45, 45, 8), charset_collations=((45, 224),), time_zone="+01:00")


class Source:
    """An online DDL that reads statements one by one, each an event of its own."""

    def __init__(self, *, tracked: bool = True, dumped_after: frozenset[TableName] = frozenset()) -> None:
        self.tracker = SchemaTracker("mysql")
        if tracked:
            self.tracker.set(parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, v INT, KEY k (v))", CONTEXT))
        self.records: dict[TableName, OnlineRecord] = {}
        self.dumped_after = dumped_after

    def run(self, *statements: str) -> list[str]:
        """What is executed of all of them."""
        executed: list[str] = []
        for statement in statements:
            online = OnlineDdl(TABLES, self.records, self.tracker)
            steps = [step for piece in split(statement, CONTEXT) for step in self.steps(online, piece)]
            for step in steps:
                if isinstance(step, CutOver):
                    prove(step, self.tracker, PLACE)
                    continue
                if isinstance(step, Execute):
                    executed.append(step.piece.text)
                self.track(step)
            if steps:
                records = {**self.records, **online.changes}
                self.records = {name: record for name, record in records.items() if record is not None}
            else:
                assert not online.changes, "a change without a step is never stored"
        return executed

    def steps(self, online: OnlineDdl, piece: Piece) -> list[Step]:
        query = Query("s", piece.text.encode(), SESSION, 4711, 0, 0, 0)
        if online.concerns(piece):
            return online.steps(piece, query, lambda one, session: [Execute(one, session)], self.dumped_after)
        online.guard(piece)
        online.passed(piece)
        return [Execute(piece, query)]

    def track(self, step: PieceStep) -> None:
        names = () if isinstance(step, Execute) else step.kept
        kept = [schema for table in names if (schema := self.tracker.get(table)) is not None]
        if isinstance(step, Forget) or step.track != "not":
            self.tracker.apply(step.piece)
        for schema in kept:
            self.tracker.set(schema)

    def columns(self, table: TableName = T) -> list[str] | None:
        schema = self.tracker.get(table)
        return None if schema is None else [column.name for column in schema.columns]


CREATE, ALTER = "CREATE TABLE _t_gho LIKE t", "ALTER TABLE `_t_gho` ADD COLUMN a INT AFTER id"
SWAP = "RENAME TABLE t TO _t_del, _t_gho TO t"


def test_names_are_what_dms_default_rules_say() -> None:
    kinds = {
        name: TABLES.kind(TableName("s", name)) for name in ("t", "_t_gho", "_t_new", "_t_ghc", "_t_del", "_t_old")
    }
    assert list(kinds.values()) == ["real", "ghost", "ghost", "trash", "trash", "trash"]
    assert TABLES.real(TableName("s", "__t_new")) == TableName("s", "_t")
    assert TABLES.kind(TableName("s", "")) == TABLES.kind(TableName("s", "t_new")) == "real"
    assert OnlineTables().kind(GHOST) == "real"


def test_an_expression_speaks_of_the_whole_name_as_in_dm() -> None:
    tables = OnlineTables((r"_(.+)_(?:new|gho)",), (r"_(.+)_old$",))
    names = ("_t_gho", "my_t_new", "_t_gho_2026", "_t_old", "orders_2025_old")
    assert [tables.kind(TableName("s", name)) for name in names] == ["ghost", "real", "real", "trash", "real"]


def test_all_that_was_done_to_the_ghost_is_done_to_the_table_at_the_rename() -> None:
    source = Source()
    journal = "CREATE TABLE _t_ghc (id INT PRIMARY KEY)"
    assert source.run("DROP TABLE IF EXISTS _t_gho", journal, CREATE, ALTER) == []
    assert source.run("ALTER TABLE _t_gho ADD b INT, DROP KEY k", "TRUNCATE TABLE _t_gho", "DROP TABLE _t_ghc") == []
    assert source.columns() == ["id", "v"]
    assert source.columns(GHOST) == ["id", "a", "v", "b"]
    assert source.run(SWAP) == [
        "ALTER TABLE `s`.`t` ADD COLUMN a INT AFTER id",
        "ALTER TABLE `s`.`t` ADD b INT",
        "ALTER TABLE `s`.`t` DROP KEY k",
    ]
    assert source.columns() == ["id", "a", "v", "b"]
    assert source.run("DROP TABLE IF EXISTS _t_del") == []
    assert source.records == {}
    assert source.tracker.tables() == (T,)


@pytest.mark.parametrize("tracked", [True, False])
def test_two_renames_one_after_the_other(tracked: bool) -> None:
    source = Source(tracked=tracked)
    assert source.run(CREATE, ALTER, "ALTER TABLE t RENAME _t_del") == []
    assert source.records[TRASH].moved == T
    assert len(source.run("ALTER TABLE _t_gho RENAME t")) == 1
    assert source.records == {}
    assert source.columns() == (["id", "a", "v"] if tracked else None)


def test_a_rename_that_is_taken_back() -> None:
    source = Source()
    assert source.run(CREATE, ALTER, "RENAME TABLE t TO _t_del", "RENAME TABLE _t_del TO t") == []
    assert source.columns() == ["id", "v"]
    assert list(source.records) == [GHOST]
    assert source.run("DROP TABLE _t_gho") == []
    assert source.records == {}


def test_the_dump_read_the_table_after_the_rename() -> None:
    source = Source(dumped_after=frozenset({T}))
    source.tracker.set(parse_create_table("CREATE TABLE t (id INT PRIMARY KEY, a INT, v INT)", CONTEXT))
    assert source.run(SWAP) == []  # also where the ghost was made before the dump began
    assert source.columns() == ["id", "a", "v"]


def test_a_ghost_that_is_not_tracked_leaves_the_table_followed_by_its_statements() -> None:
    source = Source()
    source.run(CREATE, ALTER)
    source.tracker.forget(GHOST)
    assert len(source.run(SWAP)) == 1
    assert source.columns() == ["id", "a", "v"]


@pytest.mark.parametrize(
    ("statements", "error"),
    [
        ((SWAP,), "online-ddl-unknown"),
        ((ALTER, SWAP), "online-ddl-unknown"),  # the CREATE TABLE was not seen
        (("CREATE TABLE IF NOT EXISTS _t_gho LIKE t", ALTER, SWAP), "online-ddl-unknown"),
        ((CREATE, ALTER, "DROP TABLE _t_gho", CREATE, SWAP), "online-ddl-unknown"),
        ((CREATE, ALTER, "DROP TABLE _t_gho", SWAP), "online-ddl-unknown"),
        ((CREATE, ALTER, "RENAME TABLE _t_gho TO _t_del", "RENAME TABLE _t_gho TO t"), "online-ddl-unknown"),
        (("RENAME TABLE t TO _t_gho",), "online-ddl-renamed-to-ghost"),
        (("RENAME TABLE _t_gho TO _u_gho",), "online-ddl-ghost-renamed"),
        (("RENAME TABLE _t_del TO _t_gho",), "online-ddl-ghost-renamed"),
        (("RENAME TABLE t TO _t_del, x TO t",), "online-ddl-rule-mismatch"),
        (("RENAME TABLE t TO x, _t_gho TO t",), "online-ddl-rule-mismatch"),
        (("RENAME TABLE t TO x, _u_gho TO u",), "online-ddl-several-tables"),
        (("ALTER TABLE t EXCHANGE PARTITION p WITH TABLE _t_gho",), "online-ddl-several-tables"),
        (("CREATE TABLE x LIKE _t_gho",), "online-ddl-several-tables"),
        (("RENAME TABLE _t_del TO t",), "online-ddl-trash-returns"),
        ((CREATE, ALTER, SWAP, "RENAME TABLE t TO x, _t_del TO t"), "online-ddl-several-tables"),
        ((CREATE, ALTER, SWAP, "RENAME TABLE t TO x", "RENAME TABLE _t_del TO t"), "online-ddl-trash-returns"),
        ((CREATE, ALTER, "DROP TABLE t"), "online-ddl-real-dropped"),
        ((CREATE, ALTER, "ALTER TABLE t DROP v", SWAP), "online-ddl-different"),
        (("CREATE TABLE _t_gho (id INT, v INT, KEY k (v))", ALTER, SWAP), "online-ddl-different"),
        (("CREATE TABLE _t_gho (id INT PRIMARY KEY, v INT)", ALTER, SWAP), "online-ddl-different"),
    ],
)
def test_what_cannot_be_exact_pauses(statements: tuple[str, ...], error: str) -> None:
    source = Source()
    with pytest.raises(DMError) as caught:
        source.run(*statements)
    assert caught.value.name == error
    assert caught.value.message
    assert caught.value.workaround


@pytest.mark.parametrize(
    ("definition", "varies"),
    [
        ("INT", False),
        ("INT NOT NULL DEFAULT -1 COMMENT 'DEFAULT now()'", False),
        ("VARCHAR(9) DEFAULT _latin1'x'", False),
        ("DATE DEFAULT DATE'2026-01-01'", False),
        ("BIT(8) DEFAULT b'1'", False),
        ("DATETIME DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP", False),
        ("INT GENERATED ALWAYS AS (v + 1)", False),
        ("DATETIME DEFAULT CURRENT_TIMESTAMP", True),
        ("DATETIME(6) NULL DEFAULT NOW(6)", True),
        ("BINARY(16) DEFAULT (UUID_TO_BIN(UUID()))", True),
        ("INT AUTO_INCREMENT UNIQUE", True),
    ],
)
def test_a_column_whose_values_depend_on_the_copy_pauses(definition: str, varies: bool) -> None:
    source = Source()
    source.run(CREATE, f"ALTER TABLE _t_gho ADD COLUMN x {definition}")
    if not varies:
        assert len(source.run(SWAP)) == 1
        return
    with pytest.raises(DMError, match="a value of its own in the new column x"):
        source.run(SWAP)


@pytest.mark.parametrize(
    ("operations", "why"),
    [
        (("DROP COLUMN v, ADD COLUMN v BIGINT",), "v is dropped and added again"),
        (("DROP COLUMN v", "ADD COLUMN (w INT, V BIGINT)"), "v is dropped and added again"),
        (("DROP COLUMN v, ADD COLUMN w INT", "RENAME COLUMN w TO v"), "v is dropped and added again"),
        (("CHANGE v w INT",), "v is called w"),
        (("RENAME COLUMN v TO w, ADD COLUMN v INT",), "v is called w"),
        (("CHANGE v V BIGINT",), None),
        (("DROP COLUMN v, ADD COLUMN v INT GENERATED ALWAYS AS (id + 1)",), None),
        (("ADD COLUMN w INT", "CHANGE w x INT", "DROP COLUMN x", "ADD COLUMN x BIGINT"), None),
        (("DROP COLUMN IF EXISTS w", "ADD COLUMN w INT"), None),
        (("CHANGE COLUMN IF EXISTS w x INT, ADD COLUMN IF NOT EXISTS v INT",), None),
    ],
)
def test_columns_that_the_copy_takes_by_their_names_pause(operations: tuple[str, ...], why: str | None) -> None:
    source = Source()
    source.run(CREATE, *(f"ALTER TABLE _t_gho {one}" for one in operations))
    if why is None:
        assert source.run(SWAP)
        return
    with pytest.raises(DMError, match=why) as caught:
        source.run(SWAP)
    assert caught.value.name == "online-ddl-different"


def test_foreign_keys_that_a_tool_names_anew_pause() -> None:
    source = Source()
    key = "FOREIGN KEY (v) REFERENCES p (id)"
    source.tracker.set(parse_create_table(f"CREATE TABLE t (id INT PRIMARY KEY, v INT, CONSTRAINT f {key})", CONTEXT))
    source.run(f"CREATE TABLE _t_gho (id INT PRIMARY KEY, v INT, CONSTRAINT _f {key})", ALTER)
    with pytest.raises(DMError, match="other foreign keys: f and _f"):
        source.run(SWAP)


def test_the_name_of_a_table_that_was_moved_away_is_taken_once() -> None:
    source = Source()
    source.run("RENAME TABLE t TO _t_old")
    (piece,) = split("CREATE TABLE t (id INT)", CONTEXT)
    assert OnlineDdl(TABLES, source.records, source.tracker).moved_away(piece) == MovedAway(T, TableName("s", "_t_old"))
    source.run("CREATE TABLE t (id INT)")
    assert OnlineDdl(TABLES, source.records, source.tracker).moved_away(piece) is None
    source.run(CREATE)
    source.run("DROP DATABASE s")
    assert source.records == {}


def test_a_record_comes_back_from_its_stored_form() -> None:
    (piece,) = split('ALTER TABLE "_t_gho" ADD "a\\b" INT COMMENT \'x\\\'', CONTEXT_ANSI)
    stored = StoredStatement.of(piece, Query("s", b"", SESSION, 4711, 0, 0, 0))
    assert stored.text == "ALTER TABLE `s`.`_t_gho` ADD `a\\b` INT COMMENT 'x\\\\'"
    record = OnlineRecord((stored,), T)
    assert OnlineRecord.from_json(record.to_json(GHOST)) == record
    assert stored.on(GHOST, T).text == "ALTER TABLE `s`.`t` ADD `a\\b` INT COMMENT 'x\\\\'"
    assert stored.query.session == SESSION


def test_a_record_that_has_more_of_a_session_is_read() -> None:
    """As one that was stored when a flag told a TiDB from a MySQL, and an online DDL was under way."""
    (piece,) = split("ALTER TABLE `_t_gho` ADD a INT", SourceContext("mysql", 90704, "s"))
    record = OnlineRecord((StoredStatement.of(piece, Query("s", b"", SESSION, 4711, 0, 0, 0)),))
    stored = record.to_json(GHOST).replace('{"flavor":', '{"tidb": false, "flavor":')
    assert '"tidb"' in stored
    assert OnlineRecord.from_json(stored) == record


CONTEXT_ANSI = SourceContext("mysql", 90704, "s", ansi_quotes=True, no_backslash_escapes=True)
