"""Views, routines, triggers and events arrive as the source has them, or are named with the server's words."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from dm.config.rules import RouteRule
from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.dialect import Flavor
from dm.tools.objects.adapted import Definers
from dm.tools.objects.task_objects import TaskObjects
from tests.live.objects.scene import Scene, by_name, states
from tests.testbed.park import ServerPark
from tests.testbed.sql_client import run_client
from tests.testbed.tidb import TidbServer

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

SceneFactory = Callable[..., Scene]
T = "t (a INT PRIMARY KEY, b VARCHAR(20))"


@pytest.fixture
def scene(upstream: ThrowawayServer, target: ThrowawayServer) -> Iterator[SceneFactory]:
    made: list[Scene] = []

    def create(**settings: object) -> Scene:
        made.append(Scene(upstream, target, **settings))  # type: ignore[arg-type]
        return made[-1]

    yield create
    for each in made:
        each.close()


def demand_the_same(scene: Scene) -> None:
    """SHOW CREATE tells the same on both sides, but that events are disabled at the target."""
    there = scene.read(target=True)
    for name, ours in scene.read(target=False).items():
        assert ours.statement is not None
        assert there[name].statement == ours.statement.replace(b" ENABLE", b" DISABLE"), name
        assert there[name].settings == ours.settings
        assert there[name].definer == ours.definer


def test_all_kinds_arrive_in_an_order_that_works(scene: SceneFactory) -> None:
    one = scene()
    one.tables(T)
    one.at_source(
        "CREATE FUNCTION z(x INT) RETURNS INT DETERMINISTIC RETURN x + 1",
        "CREATE VIEW z AS SELECT a FROM t",
        "CREATE VIEW a AS SELECT z(a) AS c FROM z",
        "CREATE PROCEDURE first() BEGIN CALL later(); END",
        "CREATE PROCEDURE later() SELECT 1",
        "CREATE TRIGGER z BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'x'",
        "CREATE TRIGGER b BEFORE INSERT ON t FOR EACH ROW PRECEDES z SET NEW.a = 1",
        "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        "CREATE EVENT off ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT 1",
        # MySQL prints ON COMPLETION NOT PRESERVE of this one, too, and does not understand it in its mode.
        "SET SESSION sql_mode = 'HIGH_NOT_PRECEDENCE'",
        "CREATE EVENT other ON SCHEDULE EVERY 1 DAY DISABLE DO SELECT NOT 1",
    )
    assert set(states(one.compared()).values()) == {"missing"}
    first = one.applied(kinds=("view", "function", "procedure"))
    assert set(states(first).values()) == {"created"}
    assert {name.split()[0] for name, state in states(one.compared()).items() if state == "missing"} == {
        "trigger",
        "event",
    }, "they come when they are asked for"
    assert len(one.applied()) == 5
    demand_the_same(one)
    assert [each for each in one.compared().values() if each.state != "equal"] == []
    assert one.applied() == {}, "a second time changes nothing"

    with one.objects() as found:
        assert [each.name.name for each in found.enable_events()] == ["e"]
    with one.objects() as found:
        assert found.enable_events() == []
    left = {name.name: each for name, each in one.read(target=True).items() if name.kind == "event"}
    enabled = {name for name, each in left.items() if each.status == "ENABLED"}
    assert (enabled, set(left)) == ({"e"}, {"e", "off", "other"})
    assert left["e"].definer == one.read(target=False)[left["e"].name._replace(schema="")].definer


def test_an_event_that_the_target_does_not_enable_is_refused(scene: SceneFactory) -> None:
    """A cut-over must not call itself switched while an event of the source runs nowhere."""
    one = scene()
    one.at_source("CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1")
    one.applied()
    with one.objects() as found:
        one.run_at_target("DROP EVENT e")
        (refused,) = found.enable_events()
        assert (refused.state, found.compared) == ("refused", [refused])
        assert "1539" in refused.why[0] or "Unknown event" in refused.why[0]


HOSTILE = ["a`b", 'it\'s "q"', "line\nbreak", "back\\slash", "%s %d", "é" * 64, "--", "select"]


def test_hostile_names_arrive(scene: SceneFactory, tmp_path: Path) -> None:
    one = scene(schema="o \"'\\ 名", at_target="there \"'\\ 名", routes=(_renamed("o \"'\\ 名", "there \"'\\ 名"),))
    # MySQL itself refuses a body with a backquote and a letter of several bytes in one name.
    table = Ident("t \"'\n\\名").sql
    one.tables(f"{table} (a INT PRIMARY KEY, b VARCHAR(20))")
    for name in HOSTILE:
        quoted = Ident(name).sql
        one.at_source(
            f"CREATE VIEW {quoted} AS SELECT a AS {quoted} FROM {Ident(one.schema).sql}.{table}",
            f"CREATE PROCEDURE {quoted}({quoted} INT) SELECT {quoted} FROM {Ident(one.schema).sql}.{table}",
            f"CREATE TRIGGER {quoted} AFTER DELETE ON {table} FOR EACH ROW SET @x = 'it''s'",
            f"CREATE EVENT {quoted} ON SCHEDULE EVERY 1 DAY COMMENT '\\\\ it''s \\n' DO SELECT 1",
        )
    with one.objects() as found:
        files = found.scripts(tmp_path / "sql")
    with pytest.raises(DMError, match="48973"), one.objects() as again:
        again.scripts(tmp_path / "sql")
    one.applied()
    demand_there(one)
    own = {name: each.statement for name, each in one.read(target=True).items()}

    one.target.execute(*(f"DROP DATABASE {Ident(one.at_target).sql}", f"CREATE DATABASE {Ident(one.at_target).sql}"))
    one.run_at_target(f"CREATE TABLE {table} (a INT PRIMARY KEY, b VARCHAR(20))")
    assert isinstance(one.target, ThrowawayServer)
    for file in files:
        run_client(one.target, file.read_bytes(), "--binary-mode", "--comments")
    demand_there(one)
    assert {name: each.statement for name, each in one.read(target=True).items()} == own, "the scripts say the same"


def _renamed(schema: str, target: str) -> RouteRule:
    return RouteRule.model_validate({"schema_pattern": schema, "target_schema": target})


def demand_there(scene: Scene) -> None:
    found = scene.compared()
    assert {name: each.why for name, each in found.items() if each.state != "equal"} == {}
    assert len(found) == 4 * len(HOSTILE)
    for each in scene.read(target=True).values():
        assert each.statement is not None
        assert Ident(scene.schema).sql.encode() not in each.statement


def test_an_object_keeps_its_session(scene: SceneFactory) -> None:
    one = scene()
    one.tables(T)
    one.at_source(
        'CREATE PROCEDURE "ansi"("x" INT) SELECT "x", \'back\\\'',
        "CREATE TRIGGER \"tr\" BEFORE INSERT ON t FOR EACH ROW SET @x = '\\'",
        "CREATE EVENT \"ev\" ON SCHEDULE EVERY 1 DAY COMMENT '\\ ''' DO SELECT \"a\" || '\\' FROM \"t\"",
        session="sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES,PIPES_AS_CONCAT'",
    )
    one.at_source(
        "CREATE PROCEDURE `plé`(`ü` INT) SELECT 'ö', `ü`".encode("latin-1"),
        "CREATE TRIGGER `tré` BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'ö'".encode("latin-1"),
        "CREATE VIEW `vé` AS SELECT 'ö' AS `ß`, a FROM t".encode("latin-1"),
        "CREATE EVENT `eé` ON SCHEDULE EVERY 1 DAY COMMENT 'ö' DO SELECT 'ö'".encode("latin-1"),
        session="character_set_client = latin1, collation_connection = latin1_german1_ci",
    )
    one.at_source(
        "CREATE PROCEDURE s() SELECT '表`'".encode("cp932"),
        b"CREATE PROCEDURE bytes() SELECT _binary'\xff\xfe', '\xc3\xb6'",
        session="character_set_client = cp932, collation_connection = cp932_japanese_ci",
    )
    one.at_source(
        "CREATE EVENT zoned ON SCHEDULE EVERY 1 DAY STARTS '2030-01-01 00:00:00' DO SELECT 1",
        session="time_zone = '+05:30', sql_mode = ''",
    )
    found = one.applied()
    assert set(states(found).values()) == {"created"}, {name: each.why for name, each in found.items()}
    demand_the_same(one)
    assert set(states(one.compared()).values()) == {"equal"}


def test_what_differs_is_named_and_left(scene: SceneFactory) -> None:
    one = scene()
    one.tables(T)
    for body, mode in (("1", "''"), ("2", "'ANSI_QUOTES'")):
        place = one.at_source if body == "1" else one.run_at_target
        place(f"CREATE PROCEDURE p() SELECT {body}", session=f"sql_mode = {mode}")
        place(f"CREATE VIEW v AS SELECT {body} AS a")
    one.run_at_target("CREATE VIEW other AS SELECT 1 AS a", "CREATE VIEW same AS SELECT a FROM t")
    one.at_source("CREATE VIEW same AS SELECT a FROM t")
    found = one.compared()
    assert states(found) == {
        "procedure p": "different",
        "view v": "different",
        "view same": "equal",
        "view other": "only at the target",
    }
    assert found["procedure p"].why == ("text", "sql_mode is to be empty, and is ANSI_QUOTES")
    before = one.read(target=True)
    assert one.applied() == {}
    assert one.read(target=True) == before


def test_triggers_fire_in_the_order_of_the_source(scene: SceneFactory) -> None:
    """Both servers put a new trigger after those of its table and moment, and only their lists tell the order."""
    one = scene()
    one.tables(T)
    first, second = (
        f"CREATE TRIGGER {name} BEFORE INSERT ON t FOR EACH ROW SET NEW.b = CONCAT(NEW.b, '{name}')"
        for name in ("a", "b")
    )
    one.at_source(first, second, "CREATE TRIGGER u BEFORE UPDATE ON t FOR EACH ROW SET NEW.b = 'u'")
    one.run_at_target(second)
    one.applied()
    found = one.compared()
    assert states(found) == {"trigger a": "refused", "trigger b": "equal", "trigger u": "equal"}
    assert "fires before b at the source" in found["trigger a"].why[0]
    one.run_at_target(first)
    assert states(one.compared()) == {"trigger a": "different", "trigger b": "equal", "trigger u": "equal"}
    one.run_at_target("DROP TRIGGER b")
    one.applied()
    assert set(states(one.compared()).values()) == {"equal"}


def test_an_event_that_runs_only_at_the_target_is_different(scene: SceneFactory) -> None:
    one = scene()
    text = "CREATE EVENT {} ON SCHEDULE EVERY 1 HOUR STARTS '2030-01-01 00:00:00' {} COMMENT '{}' DO SELECT 1"
    one.at_source(text.format("rests", "DISABLE", "same"), text.format("said", "ENABLE", "one"))
    one.run_at_target(text.format("rests", "ENABLE", "same"), text.format("said", "DISABLE", "two"))
    assert {name: each.why for name, each in one.compared().items()} == {
        "event rests": ("it runs, and is DISABLED at the source",),
        "event said": ("COMMENT is to be one, and is two",),
    }
    one.run_at_target("ALTER EVENT rests DISABLE", "ALTER EVENT said COMMENT 'one'")
    assert set(states(one.compared()).values()) == {"equal"}, (
        "that an event is disabled is no difference before its time"
    )


def test_what_the_server_refuses_comes_with_its_words(scene: SceneFactory) -> None:
    one = scene()
    one.tables(T, "gone (a INT)")
    one.at_source(
        "CREATE VIEW inner_view AS SELECT a FROM gone",
        "CREATE VIEW outer_view AS SELECT a FROM inner_view",
        "CREATE VIEW fine AS SELECT a FROM t",
        "DROP TABLE gone",
    )
    one.target.execute(f"DROP TABLE {one.at_target}.gone")
    found = one.applied()
    assert states(found) == {"view fine": "created", "view inner_view": "refused", "view outer_view": "refused"}
    assert "gone" in found["view inner_view"].why[0]
    assert "inner_view" in found["view outer_view"].why[0] or "gone" in found["view outer_view"].why[0]


def test_an_object_may_have_a_definer_without_an_account(scene: SceneFactory) -> None:
    one = scene()
    one.tables(T)
    nobody = "'no''body`'@'10.%'"
    one.at_source(
        f"CREATE DEFINER = {nobody} PROCEDURE p() SELECT 1",
        f"CREATE DEFINER = {nobody} VIEW v AS SELECT a FROM t",
        f"CREATE DEFINER = {nobody} TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET @x = 1",
        f"CREATE DEFINER = {nobody} EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    )
    assert set(states(one.applied()).values()) == {"created"}
    demand_the_same(one)

    for definers, wanted in (
        (("app@%",), "app@%"),
        (("no'body`@10.%=root@localhost",), "root@localhost"),
        (("leave",), str(_own(one))),
    ):
        one.run_at_target("DROP PROCEDURE p", "DROP VIEW v", "DROP TRIGGER tr", "DROP EVENT e")
        assert set(states(one.applied(*definers)).values()) == {"created"}
        assert {str(each.definer) for each in one.read(target=True).values()} == {wanted}
        assert set(states(one.compared(*definers)).values()) == {"equal"}
    assert set(states(one.compared()).values()) == {"different"}


def _own(one: Scene) -> object:
    return one.target.query("SELECT CURRENT_USER()")[0][0]


def test_names_are_those_of_the_target(scene: SceneFactory) -> None:
    routes = (
        _renamed("o_routed", "o_there"),
        RouteRule.model_validate(
            {"schema_pattern": "o_routed", "table_pattern": "t_1", "target_schema": "o_there", "target_table": "t"}
        ),
    )
    one = scene(schema="o_routed", at_target="o_there", routes=routes)
    one.source.execute("CREATE TABLE o_routed.t_1 (a INT)", "CREATE TABLE o_routed.u (a INT)")
    one.target.execute("CREATE TABLE o_there.t (a INT)", "CREATE TABLE o_there.u (a INT)")
    one.at_source(
        "CREATE TRIGGER tr BEFORE INSERT ON t_1 FOR EACH ROW SET @x = (SELECT MAX(a) FROM o_routed.u)",
        "CREATE PROCEDURE p() SELECT o_routed.a, u.a FROM o_routed.u, (SELECT 1 AS a) AS o_routed",
        "CREATE PROCEDURE q() SELECT a FROM o_routed.nothing",
        "CREATE VIEW v AS SELECT a FROM o_routed.t_1",
        "CREATE VIEW w AS SELECT a FROM o_routed.u",
    )
    found = one.applied()
    assert states(found) == {
        "procedure p": "created",
        "procedure q": "created",
        "view w": "created",
        "trigger tr": "created",
        "view v": "refused",
    }
    there = {name.name: each.statement or b"" for name, each in one.read(target=True).items()}
    assert b"ON `t` FOR EACH ROW SET @x = (SELECT MAX(a) FROM `o_there`.u)".lower() in there["tr"].lower()
    assert b"SELECT o_routed.a, u.a FROM `o_there`.u," in there["p"], "`o_routed`.a is a column of an alias"
    assert any("o_routed.t_1, which the task routes to o_there.t" in each for each in found["view v"].findings)
    assert any("o_routed.nothing, which is not there" in each for each in found["procedure q"].findings)
    assert set(states(one.compared()).values()) == {"equal", "missing"}


@pytest.mark.parametrize(("source", "other"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_across_the_servers_the_target_decides(park: ServerPark, source: Flavor, other: Flavor) -> None:
    one = Scene(park.shared(source, "upstream-1"), park.target(other, "target"))
    own = {
        "mysql": "CREATE PROCEDURE own() SELECT * FROM JSON_TABLE('[1]', '$[*]' COLUMNS (a INT PATH '$')) AS j"
        " WHERE a MEMBER OF ('[1]')",
        "mariadb": "CREATE PROCEDURE own() FOR i IN 1 .. 2 DO SELECT i; END FOR",
    }
    try:
        one.tables(T)
        one.at_source(
            "CREATE FUNCTION f(x INT) RETURNS INT DETERMINISTIC RETURN x + 1",
            "CREATE VIEW v AS SELECT f(a) AS c, CAST(b AS CHAR(3)) AS d, 'x' || b AS e FROM t WHERE b <> 'ö'",
            "CREATE VIEW a AS SELECT c FROM v",
            "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'x'",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
            "CREATE PROCEDURE versions() SELECT 1 /*!80000 + 1 */ /*!100000 + 2 */",
            own[source],
        )
        first = one.compared()
        refused = {name for name, state in states(first).items() if state == "refused"}
        assert refused == {"procedure own"}
        assert "syntax" in first["procedure own"].why[0]
        assert set(states(one.applied()).values()) == {"created", "refused"}
        read = {"mysql": b"SELECT 1  + 1", "mariadb": b"SELECT 1   + 2"}
        there = {name.name: each.statement or b"" for name, each in one.read(target=True).items()}
        assert read[source] in there["versions"], "as the source has read the version comments"
        again = states(one.compared())
        assert {name for name, state in again.items() if state != "equal"} == refused
        schemas = {str(row[0]) for row in one.target.query("SELECT schema_name FROM information_schema.schemata")}
        assert not {name for name in schemas if "_check_" in name}
    finally:
        one.close()


def test_a_scratch_schema_that_may_not_be_made_is_told_by_the_pattern_of_all(park: ServerPark) -> None:
    """The next one has another number, so its own name would be no advice."""
    one = Scene(park.shared("mysql", "upstream-1"), park.target("mariadb", "target"))
    try:
        one.tables(T)
        one.at_source("CREATE VIEW v AS SELECT a FROM t", "CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1")
        one.accounts.append(f"narrow_{one.schema}")
        one.target.execute(
            f"CREATE USER {one.accounts[0]} IDENTIFIED BY 'x'",
            f"GRANT SELECT, SHOW VIEW ON {one.schema}.* TO {one.accounts[0]}",
        )
        subtask = one.subtask()
        login = {"user": one.accounts[0], "password": SecretStr("x")}
        narrowed = subtask.model_copy(update={"target": subtask.target.model_copy(update=login)})
        pattern = r"`meta\_objects\_check\_%`.*"
        with pytest.raises(DMError, match="10901") as refused:
            TaskObjects([narrowed], Definers())
        assert pattern in refused.value.workaround
        one.target.execute(f"GRANT CREATE, DROP, ALTER, SELECT, INSERT ON {pattern} TO {one.accounts[0]}")
        objects = TaskObjects([narrowed], Definers())
        found = by_name(objects.compared)
        objects.close()
        assert states(found) == {"view v": "refused", "function f": "refused"}
        assert all(pattern in each.why[0] for each in found.values()), found
    finally:
        one.close()


def test_a_sequence_is_named(park: ServerPark) -> None:
    one = Scene(park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target"))
    try:
        one.at_source("CREATE SEQUENCE s", "CREATE SEQUENCE shared")
        one.run_at_target("CREATE SEQUENCE shared")
        with one.objects() as found:
            assert [remark.partition(",")[0] for remark in found.remarks] == [
                f"the target has no sequence {one.schema}.s"
            ]
            assert found.compared == []
    finally:
        one.close()


@pytest.mark.tidb
def test_a_tidb_takes_views(park: ServerPark, tidb: TidbServer) -> None:
    one = Scene(park.shared("mysql", "upstream-1"), tidb)
    try:
        one.tables(T)
        one.at_source(
            "CREATE VIEW v AS SELECT a, b FROM t",
            "CREATE VIEW a AS SELECT a FROM v",
            "CREATE PROCEDURE p() SELECT 1",
            "CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW SET NEW.b = 'x'",
            "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
        )
        found = one.compared()
        assert {name: each.why for name, each in found.items() if each.state == "refused"} == {
            "procedure p": ("TiDB has no procedures",),
            "trigger tr": ("TiDB has no triggers",),
            "event e": ("TiDB has no events",),
        }
        assert states(one.applied()) == {"view v": "created", "view a": "created"}
        assert {name for name, state in states(one.compared()).items() if state == "equal"} == {"view v", "view a"}
        assert one.applied() == {}
    finally:
        one.close()
