"""Accounts, roles and privileges: they log in at the target with the password that they have, or are named."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from pydantic import SecretStr

from dm.config.rules import RouteRule
from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from dm.tools.objects.accounts.survey import ComparedAccount
from dm.tools.objects.adapted import Definers
from dm.tools.objects.task_objects import TaskObjects
from tests.live.objects.scene import Scene
from tests.testbed.park import ServerPark
from tests.testbed.sql_client import run_client
from tests.testbed.tidb import TidbServer

pytestmark = pytest.mark.live

T = "t (a INT PRIMARY KEY, b VARCHAR(20))"
PASSWORD = 'it\'s \\ a "secret" é'


class People:
    """Accounts of a scene with names that no other test has."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.end = secrets.token_hex(3)
        self.roles: list[str] = []

    def name(self, word: str) -> str:
        """As SQL writes it."""
        self.scene.accounts.append(f"'{word}_{self.end}'@'%'")
        return self.scene.accounts[-1]

    def role(self, word: str) -> str:
        """As SQL creates and grants it; it is dropped on both sides."""
        self.roles.append(f"{word}_{self.end}")
        return self.roles[-1]

    def close(self) -> None:
        for server in (self.scene.source, self.scene.target):
            server.execute(*(f"DROP ROLE IF EXISTS {role}" for role in self.roles))
        self.scene.close()


@contextmanager
def people(source: ThrowawayServer, target: PrivateServer, **settings: object) -> Iterator[People]:
    found = People(Scene(source, target, **settings))  # type: ignore[arg-type]
    try:
        found.scene.tables(T)
        yield found
    finally:
        found.close()


def bare(account: str) -> str:
    """The user's name."""
    return account.partition("@")[0].strip("'")


def told(found: Sequence[ComparedAccount], end: str) -> dict[str, ComparedAccount]:
    """By kind and name, without what makes the name one of its test."""
    return {f"{each.kind} {each.name}".replace(f"_{end}", ""): each for each in found if end in each.name}


def listed(one: People) -> dict[str, ComparedAccount]:
    with one.scene.objects() as objects:
        return told(objects.accounts, one.end)


def applied(one: People) -> dict[str, ComparedAccount]:
    with one.scene.objects() as objects:
        objects.create_accounts()
        objects.apply(("function", "procedure", "view"))
        objects.give_privileges()
        return told(objects.accounts, one.end)


def states(found: dict[str, ComparedAccount]) -> dict[str, str]:
    return {name: each.state for name, each in found.items()}


def logs_in(one: People, client: ThrowawayServer, account: str, statement: str, password: str = PASSWORD) -> None:
    """A person with the server's own client, at the target."""
    target, user = one.scene.target, bare(account)
    place = (f"--host={target.host}", f"--port={target.port}", "--default-character-set=utf8mb4")
    run_client(client, statement.encode(), *place, f"--user={user}", f"--password={password}")


def create(one: People) -> tuple[str, str, str]:
    """An application, a reader by a role, and an account of another schema, at the source."""
    app, reader, stranger = one.name("app"), one.name("reader"), one.name("stranger")
    role, quoted, schema = one.role("readers"), PASSWORD.replace("\\", "\\\\").replace("'", "''"), one.scene.schema
    one.scene.source.execute(
        *(f"CREATE USER {each} IDENTIFIED BY '{quoted}'" for each in (app, reader, stranger)),
        f"CREATE ROLE {role}",
        f"GRANT SELECT ON {schema}.* TO {role}",
        f"GRANT {role} TO {reader}",
        f"GRANT INSERT, SELECT (a), UPDATE (a, b) ON {schema}.t TO {app} WITH GRANT OPTION",
        f"GRANT PROCESS ON *.* TO {app}",
        f"GRANT SELECT ON elsewhere_{one.end}.* TO {app}",
        f"GRANT SELECT ON elsewhere_{one.end}.* TO {stranger}",
    )
    return app, reader, role


@pytest.mark.ci_flavor("mysql")
def test_accounts_log_in_at_the_target(upstream: ThrowawayServer, target: ThrowawayServer) -> None:
    with people(upstream, target) as one:
        app, reader, role = create(one)
        words = "TO" if upstream.flavor == "mysql" else "FOR"
        upstream.execute(f"SET DEFAULT ROLE {role} {words} {reader}")
        one.scene.at_source("CREATE PROCEDURE p() SELECT 1", f"GRANT EXECUTE ON PROCEDURE p TO {app}")
        first = listed(one)
        named = {name.partition("@")[0] for name in first}
        assert named == {"account app", "grant app", "account reader", "grant reader", "role readers", "grant readers"}
        assert set(states(first).values()) == {"missing"}
        assert any("elsewhere" in each for each in first["grant app@%"].findings), "of another schema: named, not given"

        done = applied(one)
        assert set(states(done).values()) == {"created"}, {name: each.why for name, each in done.items()}
        assert set(states(listed(one)).values()) == {"equal"}, {name: each.why for name, each in listed(one).items()}
        schema = one.scene.at_target
        logs_in(
            one, target, app, f"INSERT INTO {schema}.t (a) VALUES (1); UPDATE {schema}.t SET b = 'x'; CALL {schema}.p()"
        )
        logs_in(one, target, reader, f"SELECT * FROM {schema}.t")
        with pytest.raises(AssertionError, match="denied"):
            logs_in(one, target, app, f"SELECT b FROM {schema}.t")


def test_routed_names_and_more_than_the_source_gives(park: ServerPark) -> None:
    source, target = park.shared("mysql", "upstream-1"), park.shared("mysql", "target")
    routes = tuple(
        RouteRule.model_validate({"schema_pattern": "o_acc", "target_schema": "o_acc_there", **more})
        for more in ({}, {"table_pattern": "t_1", "target_table": "t"})
    )
    with people(source, target, schema="o_acc", at_target="o_acc_there", routes=routes) as one:
        app = one.name("app")
        one.scene.at_source(
            "CREATE TABLE t_1 (a INT PRIMARY KEY)",
            "CREATE VIEW v AS SELECT a FROM t_1",
            f"CREATE USER {app}",
            f"GRANT INSERT ON `o\\_acc`.* TO {app}",
            f"GRANT SELECT ON t_1 TO {app}",
            f"GRANT SHOW VIEW ON v TO {app}",
        )
        found = listed(one)["grant app@%"]
        assert [gift.statement.partition(" TO ")[0] for gift in found.gifts] == [
            "GRANT INSERT ON `o\\_acc\\_there`.*",
            "GRANT SELECT ON `o_acc_there`.`t`",
            "GRANT SHOW VIEW ON `o_acc_there`.`v`",
        ]
        one.scene.target.execute(f"CREATE USER {app}", "CREATE VIEW o_acc_there.v AS SELECT a FROM o_acc_there.t")
        applied(one)
        assert set(states(listed(one)).values()) == {"equal"}
        one.scene.target.execute(f"GRANT DELETE ON o_acc_there.* TO {app}", f"GRANT SELECT ON mysql.* TO {app}")
        more = listed(one)["grant app@%"]
        assert (more.state, more.why) == (
            "different",
            ("it has DELETE ON `o_acc_there`.*, which no source gives it",),
        ), "what it may do in other schemas is not this task's"
        one.scene.target.execute(f"ALTER USER {app} IDENTIFIED BY 'another' ACCOUNT LOCK")
        other = listed(one)["account app@%"]
        assert other.state == "different"
        assert other.why == (
            "it has a password, and has none at the source",
            "no ACCOUNT is to be, and ACCOUNT LOCK is",
        )


@pytest.mark.parametrize(("source", "other"), [("mysql", "mariadb"), ("mariadb", "mysql")])
def test_a_password_that_the_target_can_not_have_is_left_open(
    park: ServerPark, source: Flavor, other: Flavor, tmp_path: Path
) -> None:
    """Nothing is invented: a person gives a new one, and then the account is as it is to be."""
    with people(park.shared(source, "upstream-1"), park.target(other, "target")) as one:
        app, reader, role = create(one)
        there = park.target(other, "target")
        found = applied(one)
        assert states(found) == {
            "account app@%": "refused",
            "account reader@%": "refused",
            "grant app@%": "refused",
            "grant reader@%": "refused",
            f"role readers{'@%' if other == 'mysql' else ''}": "created",
            f"grant readers{'@%' if other == 'mysql' else ''}": "created",
        }
        (why,) = found["account app@%"].why
        assert "IDENTIFIED BY '<a new password>'" in why
        with one.scene.objects() as objects:
            files = objects.scripts(tmp_path / "sql", ("account", "role", "grant"))
        assert any(b"a new password" in file.read_bytes() for file in files)
        statements = [listed(one)[f"account {word}@%"].why[0].partition(": CREATE")[2] for word in ("app", "reader")]
        there.execute(*(f"CREATE{each}".replace("<a new password>", "another") for each in statements))
        again = listed(one)
        assert states(again)["account app@%"] == "equal"
        assert again["account app@%"].findings == ("its password at the target is its own",)
        applied(one)
        assert set(states(listed(one)).values()) == {"equal"}, {name: each.why for name, each in listed(one).items()}
        logs_in(one, there, app, f"INSERT INTO {one.scene.at_target}.t (a) VALUES (1)", "another")
        logs_in(one, there, reader, f"SET ROLE {role}; SELECT * FROM {one.scene.at_target}.t", "another")


@pytest.fixture
def tls_tidb(tidb: TidbServer, tmp_path: Path) -> Iterator[TidbServer]:
    """A TiDB takes a password of caching_sha2_password over TLS only."""
    server = TidbServer(tmp_path / "tidb", password=tidb.password, security={"auto-tls": True})
    try:
        yield server.start()
    finally:
        server.destroy()


@pytest.mark.tidb
def test_accounts_log_in_at_a_tidb(park: ServerPark, tls_tidb: TidbServer) -> None:
    client = park.shared("mysql", "upstream-1")
    with people(client, tls_tidb) as one:
        app, reader, role = create(one)
        client.execute(f"SET DEFAULT ROLE {role} TO {reader}")
        found = applied(one)
        assert set(states(found).values()) == {"created"}, {name: each.why for name, each in found.items()}
        assert set(states(listed(one)).values()) == {"equal"}, {name: each.why for name, each in listed(one).items()}
        logs_in(one, client, app, f"INSERT INTO {one.scene.at_target}.t (a) VALUES (1)")
        logs_in(one, client, reader, f"SELECT * FROM {one.scene.at_target}.t")


def test_scripts_say_the_same_and_nobody_else_reads_them(park: ServerPark, tmp_path: Path) -> None:
    source, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    with people(source, target) as one:
        app, _, _ = create(one)
        with one.scene.objects() as objects:
            files = objects.scripts(tmp_path / "sql", ("account", "role", "grant"))
            shown = repr(objects.accounts)
        assert [file.name for file in files] == ["1-accounts.sql", "4-grants.sql"]
        assert {file.stat().st_mode & 0o777 for file in files} == {0o600}
        (secret,) = source.query(
            "SELECT authentication_string FROM mysql.user WHERE user = %s", [app.split("@")[0].strip("'")]
        )[0]
        assert str(secret) in files[0].read_text()
        assert str(secret) not in shown, "no hash is in what is told"
        for file in files:
            run_client(target, file.read_bytes(), "--binary-mode", "--comments")
        assert set(states(listed(one)).values()) == {"equal"}
        logs_in(one, target, app, f"INSERT INTO {one.scene.at_target}.t (a) VALUES (1)")


def test_a_definer_is_of_the_task_and_the_server_s_words_are_told(park: ServerPark) -> None:
    source, target = park.shared("mysql", "upstream-1"), park.target("mariadb", "target")
    with people(source, target) as one:
        definer = one.name("definer")
        one.scene.at_source(
            f"CREATE USER {definer}",
            f"CREATE DEFINER = {definer} PROCEDURE p() SELECT 1",
            f"GRANT XA_RECOVER_ADMIN, SELECT ON *.* TO {definer}",
        )
        found = applied(one)
        assert states(found) == {"account definer@%": "created", "grant definer@%": "refused"}
        assert "XA_RECOVER_ADMIN" in found["grant definer@%"].why[0]
        assert "syntax" in found["grant definer@%"].why[0]
        again = listed(one)["grant definer@%"]
        assert again.why == ("it lacks XA_RECOVER_ADMIN ON *.*",), "the other one was given"


def test_an_account_that_may_not_read_accounts_is_told_what_it_lacks(park: ServerPark) -> None:
    source, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    with people(source, target) as one:
        narrow = one.name("narrow")
        source.execute(f"CREATE USER {narrow} IDENTIFIED BY 'x'", f"GRANT SELECT ON {one.scene.schema}.* TO {narrow}")
        subtask = one.scene.subtask()
        login = {"user": bare(narrow), "password": SecretStr("x")}
        endpoint = subtask.source.endpoint.model_copy(update=login)
        narrowed = subtask.source.model_copy(update={"endpoint": endpoint})
        objects = TaskObjects([subtask.model_copy(update={"source": narrowed})], Definers())
        try:
            (found,) = [each for each in objects.accounts if each.name == "*"]
        finally:
            objects.close()
        assert found.state == "refused"
        assert "GRANT SELECT ON mysql.*" in found.why[0], "and nobody takes them for alike"
