"""Statements that the source's server writes itself, and those of clients whose character set is no UTF-8."""

from __future__ import annotations

import pytest

from dm.config.rules import RouteRule
from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.syncer.operators import Request
from dm.task.binlog_verbs import operate_on_event
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.sync import running_sync, subtask_for

pytestmark = pytest.mark.live

WORDS = {"latin1": "é", "gbk": "中", "sjis": "日", "swe7": "Å"}
BYTES = {"latin1": b"\xe9", "gbk": b"\xd6\xd0", "sjis": b"\x93\xfa", "swe7": b"]"}
STATEMENTS = (
    "CREATE TABLE `plain@` (id INT PRIMARY KEY, `n@` VARCHAR(9) DEFAULT 'd@' COMMENT 'c@') COMMENT 't@'",
    "INSERT INTO `plain@` VALUES (1, 'v@')",
    "CREATE TABLE `select@` (PRIMARY KEY (id)) COMMENT 't@' SELECT id, `n@`, 'l@' AS `l@` FROM `plain@`",
    "CREATE TABLE `empty@` COMMENT 't@' SELECT id, `n@` FROM `plain@` WHERE id > 7",
    "CREATE TEMPORARY TABLE `tmp@` (id INT PRIMARY KEY, `n@` VARCHAR(9) DEFAULT 'd@' COMMENT 'c@') COMMENT 't@'",
    "CREATE TABLE `like@` LIKE `tmp@`",
    "INSERT INTO `like@` VALUES (1, 'v@')",
    "CREATE TABLE `model@` LIKE `plain@`",
    "ALTER TABLE `like@` ADD `x@` INT COMMENT 'k@'",
    "RENAME TABLE `model@` TO `renamed@`",
    "CREATE VIEW `view@` AS SELECT `n@`, '@' AS `k@` FROM `plain@`",
)


def write(server: ThrowawayServer, name: str, charset: str, *statements: str) -> None:
    """Run the statements as a client of this character set; `@` is a character of it."""
    with server.connect(database=name) as session:
        session.query(f"SET NAMES {charset}")
        for statement in statements:
            session.query(statement.encode().replace(b"@", BYTES.get(charset, b"@")))


def shown(server: ThrowawayServer, name: str) -> dict[str, str]:
    columns = server.query(
        "SELECT table_name, column_name, column_type, column_default, collation_name, column_comment"
        " FROM information_schema.columns WHERE table_schema = %s AND table_name NOT LIKE 'view%%' ORDER BY 1, 2",
        (name,),
    )
    tables = server.query(
        "SELECT table_name, table_collation, table_comment FROM information_schema.tables"
        " WHERE table_schema = %s AND table_type = 'BASE TABLE'",
        (name,),
    )
    return {str(row[0]): f"{row[1:]} {[each[1:] for each in columns if each[0] == row[0]]}" for row in tables}


def identical(upstream: ThrowawayServer, target: ThrowawayServer, name: str) -> dict[str, str]:
    made = shown(target, name)
    assert made == shown(upstream, name)
    report = compare(pair_tables([upstream], [name]), target, structures=False)
    assert report.identical, str(report)
    return made


@pytest.mark.ci_flavor("mariadb")
def test_texts_of_clients_and_of_the_server_arrive_as_they_are_meant(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for charset in WORDS:
            write(upstream, name, charset, *STATEMENTS)
        sync.wait_synced()
        made = identical(upstream, target, name)
    tables = ("plain", "select", "empty", "like", "renamed")
    assert {f"{table}{word}" for table in tables for word in WORDS.values()} == set(made)
    assert all(f"x{word}" in made[f"like{word}"] for word in WORDS.values())


def test_a_table_like_a_temporary_one_has_its_character_set(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        write(
            upstream,
            name,
            "latin1",
            "CREATE TEMPORARY TABLE one (id INT PRIMARY KEY, a VARCHAR(9), e ENUM('x', 'y@'),"
            " c VARCHAR(9) CHARACTER SET utf8mb4) CHARACTER SET latin1",
            "CREATE TABLE of_latin1 LIKE one",
            "CREATE TEMPORARY TABLE two (id INT PRIMARY KEY, a VARCHAR(9)) CHARACTER SET gbk COLLATE gbk_bin",
            "CREATE TABLE of_gbk LIKE two",
        )
        sync.wait_synced()
        write(
            upstream,
            name,
            "latin1",
            "INSERT INTO of_latin1 VALUES (1, 'v@', 'y@', 'z@'), (2, 'w@', 'x', NULL)",
            "SET NAMES gbk",
            "INSERT INTO of_gbk VALUES (1, x'D6D0')",
            "ALTER TABLE of_gbk ADD later VARCHAR(3)",
        )
        sync.wait_synced()
        made = identical(upstream, target, name)
    assert made["of_latin1"].count("latin1_swedish_ci") == 3
    assert made["of_gbk"].count("gbk_bin") == 3


def test_a_table_like_a_temporary_one_that_is_gone_pauses_where_rows_do_not_tell(
    mariadb: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, other = schema(mariadb), schema(mariadb)
    subtask = subtask_for(
        mariadb, mariadb, name, task=name, routes=(RouteRule(schema_pattern=name, target_schema=other),)
    )
    with running_sync(subtask) as sync:
        sync.wait_synced()
    file, offset, *_ = mariadb.query("SHOW MASTER STATUS")[0]
    write(
        mariadb,
        name,
        "latin1",
        "CREATE TEMPORARY TABLE tmp (a TEXT) CHARACTER SET latin1",
        "CREATE TABLE t LIKE tmp",
        "INSERT INTO t VALUES ('v@')",
        "RENAME TABLE t TO u",
    )
    with running_sync(subtask) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.name == "ddl-charset-unclear"
    # The way out that the error names.
    statement = f"CREATE TABLE {name}.t (a TEXT) CHARACTER SET latin1"
    operate_on_event(subtask, Request("replace", name, subtask.source_id, f"{file}:{offset}", (statement,)), None)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert mariadb.query(f"SELECT a FROM {other}.u") == (("vé",),)


def test_without_atomic_ddl_the_sources_table_tells_what_was_meant(
    server: ServerFactory, mysql: ThrowawayServer, schema: SchemaFactory
) -> None:
    upstream = server("mysql", gtid=False)
    name = schema(upstream, mysql)
    subtask = subtask_for(upstream, mysql, name, task=name)
    with running_sync(subtask) as sync:
        sync.wait_synced()
        write(upstream, name, "latin1", "CREATE TABLE `select@` ENGINE=MyISAM SELECT 1 AS id, 'v@' AS `n@`")
        with upstream.connect(database=name) as session:  # what a client sends is meant in its character set
            session.query("SET NAMES latin1")
            session.query(b"CREATE TABLE `sent` (\n  `\xc3\xa9` int DEFAULT NULL COMMENT '\xc3\xa9'\n)")
        sync.wait_synced()
        made = identical(upstream, mysql, name)
    assert "né" in made["selecté"]
    assert "Ã©" in made["sent"]
    file, offset, *_ = upstream.query("SHOW BINARY LOG STATUS")[0]
    write(upstream, name, "latin1", "CREATE TABLE `old@` ENGINE=MyISAM SELECT 1 AS `n@`", "RENAME TABLE `old@` TO new")
    with running_sync(subtask) as sync:
        error = sync.wait_ended()
        sync.error = None
    assert isinstance(error, DMError)
    assert error.name == "statement-charset-unclear"
    assert "`oldé`" in error.workaround
    statement = f"CREATE TABLE {name}.oldé (né INT)"
    operate_on_event(subtask, Request("replace", name, subtask.source_id, f"{file}:{offset}", (statement,)), None)
    with running_sync(subtask) as sync:
        sync.wait_synced()
    assert mysql.query(f"SELECT né FROM {name}.new") == ((1,),)


def test_what_the_server_escapes_is_read_as_escaped(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    columns = r"(id INT PRIMARY KEY, x VARCHAR(9) DEFAULT 'p\q' COMMENT 'r\s', y ENUM('e\f', '\\')) COMMENT 't\u'"
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        write(
            upstream,
            name,
            "utf8mb4",
            "SET sql_mode = 'NO_BACKSLASH_ESCAPES'",
            f"CREATE TABLE a {columns}",
            r"INSERT INTO a (id, y) VALUES (1, 'e\f'), (2, '\\')",
            r"CREATE TABLE b (PRIMARY KEY (id)) COMMENT 't\u' SELECT * FROM a",
            f"CREATE TEMPORARY TABLE tmp {columns}",
            "CREATE TABLE c LIKE tmp",
            "INSERT INTO c SELECT * FROM a",
        )
        sync.wait_synced()
        made = identical(upstream, target, name)
    assert set(made) == {"a", "b", "c"}


@pytest.mark.parametrize("default", ["latin1 COLLATE latin1_bin", "gbk", "utf8mb4 COLLATE utf8mb4_bin"])
def test_a_default_character_set_is_that_of_the_sources_schema(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory, default: str
) -> None:
    """MySQL takes that of the session's schema, MariaDB that of the table's without its collation."""
    name = schema(upstream, target)
    upstream.execute(f"ALTER DATABASE {name} CHARACTER SET {default}")  # the target's schema keeps its own
    options = "CHARSET utf8mb4 COLLATE utf8mb4_general_ci"
    forms = [
        "CONVERT TO CHARACTER SET DEFAULT",
        "CONVERT TO CHARSET /* of */ DEFAULT, ADD c VARCHAR(9), ADD UNIQUE (o)",
        "ALTER o SET DEFAULT 'x', CONVERT TO CHAR SET DEFAULT",
    ]
    if upstream.flavor == "mariadb":
        forms += ["CHARACTER SET = DEFAULT, ADD c VARCHAR(9)", "DEFAULT CHARSET DEFAULT"]
    with running_sync(subtask_for(upstream, target, name, task=name)) as sync:
        sync.wait_synced()
        for number, form in enumerate(forms):
            table = f"t{number}"
            write(
                upstream,
                name,
                "utf8mb4",
                f"CREATE TABLE {table} (id INT PRIMARY KEY, o VARCHAR(9)) {options}",
                f"INSERT INTO {table} VALUES (1, 'a')",
                f"ALTER TABLE {table} {form}",
                f"INSERT INTO {table} (id, o) VALUES (2, '\u00a7')",
                f"CREATE TABLE like_{table} LIKE {table}",
                f"INSERT INTO like_{table} (id, o) VALUES (3, 'b')",
            )
        if upstream.flavor == "mariadb":
            write(upstream, name, "utf8mb4", "CREATE TABLE made (id INT, o VARCHAR(9)) CHARACTER SET DEFAULT")
        # No table's: a routine with these words, and a schema's default, which is the server's.
        write(upstream, name, "utf8mb4", "CREATE PROCEDURE p() BEGIN DECLARE v VARCHAR(9) DEFAULT ''; SET v = 'x'; END")
        sync.wait_synced()
        made = identical(upstream, target, name)
        if upstream.flavor == "mariadb":
            write(
                upstream, name, "utf8mb4", f"ALTER DATABASE {name} CHARACTER SET DEFAULT", "CREATE TABLE z (o CHAR(3))"
            )
            sync.wait_synced()
            identical(upstream, target, name)
    expected = default.split()[-1 if upstream.flavor == "mysql" else 0]
    assert all(expected in text for text in made.values())


@pytest.mark.parametrize("flavor", ["mysql"])
def test_a_default_of_a_schema_that_is_not_migrated_pauses_by_name(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name, elsewhere = schema(upstream, target), schema(upstream)
    upstream.execute(f"ALTER DATABASE {elsewhere} CHARACTER SET cp1251")
    task = subtask_for(upstream, target, name, task=name)
    with running_sync(task) as sync:
        sync.wait_synced()
        made = f"CREATE TABLE {name}.t (id INT PRIMARY KEY, o VARCHAR(9))"
        upstream.execute(made, f"INSERT INTO {name}.t VALUES (1, 'a')")
        sync.wait_synced()
    statement = f"ALTER TABLE {name}.t CONVERT TO CHARACTER SET DEFAULT"
    with upstream.connect(database=elsewhere) as session:
        session.query(statement)
    upstream.execute(f"INSERT INTO {name}.t VALUES (2, 'b')")
    with pytest.raises(DMError) as raised, running_sync(task) as sync:
        sync.wait_synced()
    error = raised.value
    assert (error.name, f"the schema {elsewhere} in" in error.message) == ("ddl-default-unclear", True)
    assert error.place is not None
    place, replacement = f"{error.place['file']}:{error.place['offset']}", statement.replace("DEFAULT", "cp1251")
    operate_on_event(task, Request("replace", name, task.source_id, place, (replacement,)), None)
    with running_sync(task) as sync:
        sync.wait_synced()
        identical(upstream, target, name)
