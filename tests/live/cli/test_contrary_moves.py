"""Applications move to the target and come back; all servers have global variables contrary to what dm needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from dm.demo.compare import TablePair, UpstreamTable, compare
from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.dialect import Flavor
from tests.testbed.contrary import (
    EVERYWHERE,
    MOVING,
    OF_A_TARGET,
    OF_MARIADB,
    OF_MYSQL,
    OF_TIDB,
    WITHOUT_LIMIT,
    Globals,
    Recorded,
    contrary,
    write,
)  # fmt: skip
from tests.testbed.fixtures import ServerFactory
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(600)]

PASSWORD = "its \\own"  # in SQL that the sessions' modes read, and as it is
GLOBALS: dict[str, Globals] = {flavor: {**EVERYWHERE, **own, "time_zone": "+05:30"}
           for flavor, own in (("mysql", OF_MYSQL), ("mariadb", OF_MARIADB))}  # fmt: skip
TASK = """\
name: move
task-mode: all
target-database: {{host: 127.0.0.1, port: {port}, user: {user}, password: {password}}}
mysql-instances: [{{source-id: one, block-allow-list: b, syncer-config-name: careful}}]
block-allow-list: {{b: {{do-dbs: [shop]}}}}
syncers: {{careful: {{atomic-transactions: true, conflicts: pause}}}}
"""
TABLES = (
    'CREATE TABLE shop."a b" ("id" INT AUTO_INCREMENT PRIMARY KEY, "v" VARCHAR(40), "at" TIMESTAMP NULL, "d" DATETIME)'
    " ENGINE=InnoDB DEFAULT CHARSET=latin1",
    'CREATE TABLE shop.plain ("id" INT, "v" VARCHAR(40)) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4',
    'CREATE TABLE shop.still ("k" VARCHAR(10) PRIMARY KEY, "v" INT) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4',
    "INSERT INTO shop.still VALUES ('\\', 1), ('\"', 2), ('é', 3)",
)
OBJECTS = (
    'CREATE VIEW shop.words AS SELECT "id", \'\\é \' || "v" AS "x" FROM shop."a b"',
    'CREATE PROCEDURE shop.p() SELECT "k" || \'\\\' AS "x" FROM shop.still ORDER BY "v" LIMIT 1',
    # What comes back passes it once more, so it makes nothing of what it has made.
    'CREATE TRIGGER shop.stamp BEFORE INSERT ON shop."a b" FOR EACH ROW'
    " SET NEW.\"v\" = REPLACE(NEW.\"v\", '\\', '\"' || 'ü')",
    "CREATE EVENT shop.nightly ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01 02:30:00' DO DELETE FROM shop.plain WHERE 0",
    f"CREATE USER shop_app IDENTIFIED BY '{PASSWORD}'",
    'GRANT SELECT, INSERT ON shop."a b" TO shop_app',
    "GRANT EXECUTE ON PROCEDURE shop.p TO shop_app",
)
LEFT_OUT = ("account shop_app@%", "grant shop_app@%", "account dm@%", "grant dm@%")  # of accounts, TiDB gets none
TWICE = ("--acts-twice", "trigger shop.stamp", "--acts-twice", "event shop.nightly")


def changes(number: int) -> Iterator[str]:
    """One more round, in sessions that begin with the globals."""
    at = "2024-03-10 02:30:00"
    yield f'INSERT INTO shop."a b" ("v", "at", "d") VALUES (\'é\\{number}\', \'{at}\', \'{at}\')'
    yield f"INSERT INTO shop.plain VALUES ({number}, '\\')"
    yield f'UPDATE shop.still SET "v" = {10 * number} WHERE "k" = \'\\\''


def states(daemon: Recorded) -> dict[str, str]:
    found = daemon.said("objects", "move", "-o", "json").json()["objects"]
    return {f"{each['kind']} {each['name']}": each["state"] for each in found if "dm@" not in each["name"]}


def qualified(name: str) -> str:
    """As `--waive` takes what the list shows."""
    kind, _, own = name.partition(" ")
    return name if kind in ("account", "grant") else f"{kind} shop.{own}"


def spoken(server: ThrowawayServer) -> tuple[object, ...]:
    """What the applications' account is told by the procedure."""
    with closing(server.connect(user="shop_app", password=PASSWORD)) as session, session.cursor() as cursor:
        cursor.execute(WITHOUT_LIMIT[server.flavor])
        cursor.execute("SET SESSION sql_big_selects = 1, sql_select_limit = DEFAULT")
        cursor.execute("CALL shop.p()")
        return cursor.fetchall()[0]


def differences(source: ThrowawayServer, target: ThrowawayServer | TidbServer) -> str:
    names = [TableName("shop", name) for name in ("a b", "plain", "still")]
    report = compare([TablePair(name, (UpstreamTable(source, name),)) for name in names], target)
    return "" if report.identical else str(report)


def there_and_back(daemon: Recorded, source: ThrowawayServer, target: ThrowawayServer) -> None:
    must, synced = daemon.must, daemon.synced
    must("operate-source", "create", "source.yaml")
    must("start-relay", "-s", "one")
    must("start-task", "task.yaml")
    synced("move")
    daemon.said("objects", "move", "--apply")
    assert {name for name, state in states(daemon).items() if state != "equal"} == {"trigger stamp", "event nightly"}
    must("diff", "move")
    write(source, *changes(1))
    synced("move")
    must("diff", "move", "--recent")
    must("cut-over", "move", "--dry-run", *TWICE)
    must("cut-over", "move", "--yes", "--prove", "recent", *TWICE)
    assert set(states(daemon).values()) == {"equal"}
    assert spoken(target) == ('"\\',), "the procedure reads as the source's, called by its account"
    write(target, *changes(2), 'ALTER TABLE shop.still ADD COLUMN "of the target" VARCHAR(9) DEFAULT \'\\n "\'')
    synced("move-back")
    must("cut-over", "move", "--back", "--yes", *TWICE)
    write(source, *changes(3))
    synced("move")
    write(target, 'UPDATE shop.still SET "v" = 99 WHERE "k" = \'\\\'')
    write(source, 'UPDATE shop.still SET "v" = 98 WHERE "k" = \'\\\'')
    daemon.wait("move", lambda status: status["one"]["stage"] == "Paused", "it looks before it writes")
    assert "36977" in str(daemon.said("query-status", "move"))
    write(target, "SET sql_log_bin = 0", 'UPDATE shop.still SET "v" = 30 WHERE "k" = \'\\\'')
    must("resume-task", "move")
    synced("move")
    must("cut-over", "move", "--complete")
    must("show-conflicts", "move")
    must("clear-conflicts", "move")


def words_at(target: TidbServer) -> tuple[tuple[object, ...], ...]:
    """What its view shows now, and not when its globals were set."""
    with closing(target.connect()) as session, session.cursor() as cursor:
        cursor.execute("SET SESSION tidb_enable_external_ts_read = OFF, max_execution_time = 0")
        cursor.execute("SELECT x FROM shop.words")
        return cursor.fetchall()


def to_a_tidb(daemon: Recorded, source: ThrowawayServer, target: TidbServer) -> None:
    """There is no way back from a server without a binlog."""
    must, synced = daemon.must, daemon.synced
    must("operate-source", "create", "source.yaml")
    must("start-relay", "-s", "one")
    must("start-task", "task.yaml")
    synced("move")
    must("objects", "move", "--apply", "--kind", "view")
    refused = {name for name, state in states(daemon).items() if state == "refused"}
    assert refused == {"procedure p", "trigger stamp", "event nightly"}
    waived = [word for name in (*refused, *LEFT_OUT) for word in ("--waive", qualified(name))]
    must("diff", "move")
    write(source, *changes(1))
    synced("move")
    must("diff", "move", "--recent")
    words = ("--no-way-back", *waived)
    must("cut-over", "move", "--dry-run", *words)
    must("cut-over", "move", "--yes", "--prove", "recent", *words)
    assert words_at(target) == (('\\é é"ü1',),), "as the source's trigger has made it"
    must("show-conflicts", "move")
    must("clear-conflicts", "move")
    must("cut-over", "move", "--complete")  # without a way back, that is the task's end


def configured(directory: Path, source: ThrowawayServer, target: ThrowawayServer | TidbServer, *, gtid: bool) -> None:
    """What each of them and the task begin with."""
    own = not isinstance(target, TidbServer)
    for each in (source, target) if own else (source,):
        each.execute(
            "CREATE USER dm IDENTIFIED BY 'mover'", "GRANT ALL ON *.* TO dm WITH GRANT OPTION", "CREATE DATABASE shop",
            "SET GLOBAL event_scheduler = ON", "SET GLOBAL log_bin_trust_function_creators = ON",
        )  # fmt: skip
    (directory / "source.yaml").write_text(
        f"source-id: one\nenable-gtid: {str(gtid).lower()}\n"
        f"from: {{host: 127.0.0.1, port: {source.port}, user: dm, password: mover}}\n"
    )
    login = {"user": "dm", "password": "mover"} if own else {"user": "root", "password": target.password}
    (directory / "task.yaml").write_text(TASK.format(port=target.port, **login))


@pytest.mark.parametrize("gtid", [True, False])
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_applications_go_there_and_back(server: ServerFactory, tmp_path: Path, flavor: Flavor, gtid: bool) -> None:
    source, target = server(flavor, gtid=gtid), server(flavor, gtid=gtid)
    configured(tmp_path, source, target, gtid=gtid)
    with ExitStack() as stack:
        stack.enter_context(contrary(source, GLOBALS[flavor]))
        stack.enter_context(contrary(target, {**GLOBALS[flavor], **OF_A_TARGET}))
        write(source, *TABLES, *OBJECTS)
        daemon = stack.enter_context(Recorded(tmp_path))
        there_and_back(daemon, source, target)
        assert daemon.called >= MOVING
    assert differences(source, target) == ""
    assert target.query("SELECT v FROM shop.still WHERE v > 3") == ((98,),)


@pytest.mark.tidb
def test_applications_go_to_a_tidb(server: ServerFactory, tidb: TidbServer, tmp_path: Path) -> None:
    source = server("mysql")
    tidb.execute("DROP DATABASE IF EXISTS shop", "DROP DATABASE IF EXISTS dm_meta")  # it is shared with other tests
    configured(tmp_path, source, tidb, gtid=True)
    try:
        with ExitStack() as stack:
            stack.enter_context(contrary(source, GLOBALS["mysql"]))
            stack.enter_context(contrary(tidb, {**EVERYWHERE, **OF_TIDB}))
            write(source, *(words.replace("latin1", "utf8mb4") for words in TABLES), *OBJECTS)  # it has latin1_bin only
            daemon = stack.enter_context(Recorded(tmp_path))
            to_a_tidb(daemon, source, tidb)
            assert daemon.called >= MOVING
        assert differences(source, tidb) == ""
    finally:
        tidb.execute("DROP DATABASE IF EXISTS shop", "DROP DATABASE IF EXISTS dm_meta", "DROP USER IF EXISTS shop_app")
