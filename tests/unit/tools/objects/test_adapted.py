"""A source's object as the target is to have it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.translation import Translation
from dm.mysql.sql.context import SourceContext
from dm.tools.objects.adapted import Adaptation, AdaptedObject, Definers, RoutedNames
from dm.tools.objects.stored import Account, Kind, ObjectName, ObjectSettings, StoredObject

MYSQL, MARIADB = SourceContext("mysql", 90704, ""), SourceContext("mariadb", 101119, "")
TABLES = {
    TableName("old", "t"): TableName("new", "t"),
    TableName("old", "t_1"): TableName("new", "merged"),
    TableName("same", "t"): TableName("same", "t"),
}
KNOWN = frozenset({*TABLES, TableName("old", "v"), TableName("old", "f")})
DEFINER = Account("app", "%")


def adapted(
    kind: Kind,
    text: str,
    *,
    schema: str = "old",
    definers: tuple[str, ...] = (),
    collations: Mapping[str, str] | None = None,
    target: SourceContext = MYSQL,
    **more: str,
) -> AdaptedObject:
    table, settings = more.pop("table", ""), {"sql_mode": "", "database_collation": "", **more}
    stored = StoredObject(
        ObjectName(kind, schema, "n"),
        DEFINER,
        text.encode(),
        ObjectSettings("utf8mb4", "utf8mb4_general_ci", **settings),
        table=table,
        status="ENABLED" if kind == "event" else "",
        comment="it's \\" if kind == "event" else "",
    )
    return Adaptation(
        RoutedNames({"old": "new", "same": "same"}, TABLES, KNOWN),
        Definers.of(definers),
        Translation.of(dict(collations or {}), {}),
        MYSQL,
        target,
        {ObjectName("view", "old", "v"), ObjectName("view", "old", "n")},
    ).adapted(stored)


def routine(body: str) -> str:
    return f"CREATE DEFINER=`app`@`%` PROCEDURE `n`() {body}"


def test_a_schema_is_renamed_before_a_name_that_is_known_in_it() -> None:
    found = adapted("procedure", routine("SELECT `old`.`t`.a, old . f(1), old.nothing, old.column_of_alias, same.t.a"))
    assert found.name == ObjectName("procedure", "new", "n")
    assert found.statement.decode() == routine(
        "SELECT `new`.`t`.a, `new` . f(1), old.nothing, old.column_of_alias, same.t.a"
    )
    assert [finding for finding in found.findings if "not there" in finding] == [
        f"its text has old.{name}, which is not there: that stays as it is" for name in ("nothing", "column_of_alias")
    ]


def test_a_table_with_another_name_is_named_and_left() -> None:
    for body in ("SELECT * FROM t_1", "SELECT * FROM `old`.`t_1`"):
        found = adapted("procedure", routine(body))
        assert found.findings == ("its text has the name of old.t_1, which the task routes to new.merged",)
    assert adapted("procedure", routine("SELECT 't_1'")).findings == ()


def test_a_trigger_goes_with_its_table() -> None:
    text = "CREATE DEFINER=`app`@`%` TRIGGER `n` BEFORE INSERT ON `t_1` FOR EACH ROW FOLLOWS `first` SET @x = 1"
    found = adapted("trigger", text, table="t_1")
    assert (found.name, found.table) == (ObjectName("trigger", "new", "n"), "merged")
    assert b" ON `merged` FOR EACH ROW FOLLOWS `first`" in found.statement
    assert found.names == {ObjectName("trigger", "old", "first")}


def test_an_event_rests_and_keeps_its_comment() -> None:
    head = "CREATE DEFINER=`app`@`%` EVENT `n` ON SCHEDULE EVERY 1 DAY "
    for printed, kept in (("ON COMPLETION NOT PRESERVE ", ""), ("ON COMPLETION PRESERVE ", "ON COMPLETION PRESERVE ")):
        for mode, comment in (("", r"'it''s \\'"), ("NO_BACKSLASH_ESCAPES", r"'it''s \'")):
            found = adapted("event", f"{head}{printed}ENABLE COMMENT 'garbled' DO SELECT 1", sql_mode=mode)
            assert found.statement.decode() == f"{head}{kept}DISABLE COMMENT {comment} DO SELECT 1"


def test_what_becomes_of_definer() -> None:
    text = routine("SELECT 1")
    for definers, account, clause in (
        ((), DEFINER, "DEFINER=`app`@`%` "),
        (("leave",), None, ""),
        (("o`ther@10.%",), Account("o`ther", "10.%"), "DEFINER=`o``ther`@`10.%` "),
        (("app@%=a@b", "c@d"), Account("a", "b"), "DEFINER=`a`@`b` "),
        (("x@y=a@b",), DEFINER, "DEFINER=`app`@`%` "),
    ):
        found = adapted("procedure", text, definers=definers)
        assert found.definer == account
        assert found.statement.decode() == f"CREATE {clause}PROCEDURE `n`() SELECT 1"
    for word in ("nobody", "a@b=nobody", ""):
        with pytest.raises(DMError, match="48971"):
            Definers.of((word,))


def test_a_view_needs_the_views_that_it_names() -> None:
    text = (
        "CREATE ALGORITHM=UNDEFINED DEFINER=`app`@`%` SQL SECURITY DEFINER VIEW `n` AS select `v`.`a` AS `n` from `v`"
    )
    found = adapted("view", text)
    assert found.names == {ObjectName("view", "old", "v")}


def test_collations_and_modes_are_the_target_s() -> None:
    found = adapted(
        "procedure",
        routine("SELECT 'x' COLLATE utf8mb4_0900_bin"),
        collations={"utf8mb4_0900_bin": "utf8mb4_bin"},
        target=MARIADB,
        sql_mode="ANSI_QUOTES,TIME_TRUNCATE_FRACTIONAL",
        database_collation="utf8mb4_0900_bin",
    )
    assert found.statement.decode() == routine("SELECT 'x' COLLATE `utf8mb4_bin`")
    assert found.settings.database_collation == "utf8mb4_bin"
    old = adapted("procedure", routine("SELECT 1"), sql_mode="NO_AUTO_CREATE_USER,ANSI_QUOTES")
    assert old.settings.sql_mode == "ANSI_QUOTES"


def test_what_can_not_be_read_says_why() -> None:
    hidden = adapted("procedure", routine("SELECT 1"))
    assert hidden.obstacle == ""
    strange = adapted("procedure", "CREATE TABLE t (a INT)")
    assert (strange.statement, strange.obstacle != "") == (b"", True)
