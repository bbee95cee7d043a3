"""The parts of an object's text, found in its bytes, and another text made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.ident import Ident
from dm.mysql.sql.context import SourceContext
from dm.tools.objects.statement import Edit, ObjectStatement, Span, context_of, encoded
from dm.tools.objects.stored import Account, Kind, ObjectName, ObjectSettings, StoredObject

MYSQL = SourceContext("mysql", 90704, "")
NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8)
CLAUSE = "DEFINER=`some``one`@`10.%`"
TEXTS: dict[Kind, str] = {
    "view": f"CREATE ALGORITHM=UNDEFINED {CLAUSE} SQL SECURITY DEFINER VIEW {{name}} AS select 1 AS `DEFINER`",
    "procedure": f"CREATE {CLAUSE} PROCEDURE {{name}}(x INT)\nBEGIN SELECT 'DEFINER=x'; END",
    "function": f"CREATE {CLAUSE} FUNCTION {{name}}() RETURNS INT RETURN 1",
    "trigger": f"CREATE {CLAUSE} TRIGGER {{name}} BEFORE INSERT ON {{table}} FOR EACH ROW FOLLOWS {{other}} SET @x = 1",
    "event": f"CREATE {CLAUSE} EVENT {{name}} ON SCHEDULE EVERY 1 DAY ON COMPLETION NOT PRESERVE ENABLE COMMENT 'it''s'"
    " DO SELECT 1",
    "package body": f"CREATE {CLAUSE} PACKAGE BODY {{name}} AS BEGIN NULL; END",
}


def stored(kind: Kind, text: bytes | str, charset: str = "utf8mb4", sql_mode: str = "") -> StoredObject:
    raw = text.encode() if isinstance(text, str) else text
    settings = ObjectSettings(charset, f"{charset}_general_ci", sql_mode=sql_mode)
    return StoredObject(ObjectName(kind, "s", "n"), Account("a", "b"), raw, settings)


def parsed(kind: Kind, text: bytes | str, charset: str = "utf8mb4", sql_mode: str = "") -> ObjectStatement:
    found = stored(kind, text, charset, sql_mode)
    return ObjectStatement(found, context_of(found, MYSQL))


def part(statement: ObjectStatement, span: Span | None) -> str:
    assert span is not None
    return statement.raw[span.start : span.end].decode()


@pytest.mark.parametrize("kind", TEXTS)
@given(NAMES, NAMES, NAMES)
def test_the_head_is_found_whatever_things_are_called(kind: Kind, name: str, table: str, other: str) -> None:
    quoted = {"name": Ident(name).sql, "table": Ident(table).sql, "other": Ident(other).sql}
    statement = parsed(kind, TEXTS[kind].format(**quoted))
    head = statement.head
    assert part(statement, head.definer) == f"{CLAUSE} "
    assert part(statement, head.name) == quoted["name"]
    assert statement.spells(head.name, "any", name)
    if kind == "trigger":
        assert part(statement, head.table) == quoted["table"]
        assert head.other is not None
        assert statement.names(head.other)[0] == other
    if kind == "event":
        assert part(statement, head.status) == "ON COMPLETION NOT PRESERVE ENABLE", "its default goes with it"
        assert part(statement, head.comment) == "COMMENT 'it''s'"
    assert statement.edited([]) == statement.raw
    again = statement.edited([Edit(head.definer or head.name, b""), Edit(head.name, b"`new`")])
    assert parsed(kind, again).meaning("s") == statement.meaning("s"), "DEFINER and the name are no part of it"


@given(st.binary(max_size=40), NAMES)
def test_a_text_keeps_its_bytes_whatever_they_are(literal: bytes, name: str) -> None:
    escaped = literal.replace(b"\\", b"\\\\").replace(b"'", b"''")
    raw = b"CREATE DEFINER=`a`@`b` PROCEDURE `n`() SELECT '" + escaped + b"', `s`.`t`.a"
    statement = parsed("procedure", raw)
    edited = statement.edited([Edit(statement.head.name, Ident(name).sql.encode())])
    assert edited == raw.replace(b"`n`", Ident(name).sql.encode(), 1)
    assert [(statement.names(at), statement.names(other)) for at, other in statement.qualified()] == [(("s",), ("t",))]


@pytest.mark.parametrize("charset", ["sjis", "cp932", "gbk", "big5", "gb18030"])
def test_a_byte_of_a_longer_character_is_no_quote(charset: str) -> None:
    letter = {"sjis": "表", "cp932": "表", "gbk": "誠", "big5": "功", "gb18030": "誠"}[charset]
    raw = letter.encode(charset)
    assert raw[-1:] in b"\\`", "its last byte is an ASCII sign"
    statement = parsed("procedure", b"CREATE DEFINER=`a`@`b` PROCEDURE `n`() SELECT '" + raw + b"', `s`.`t`.a", charset)
    assert len(list(statement.qualified())) == 1


def test_the_modes_of_an_object_say_what_quotes_mean() -> None:
    text = 'CREATE DEFINER=`a`@`b` PROCEDURE `n`() SELECT "s"."t".a, \'\\\''
    assert len(list(parsed("procedure", text, sql_mode="ANSI_QUOTES,NO_BACKSLASH_ESCAPES").qualified())) == 1
    with pytest.raises(DMError, match="36067"):
        parsed("procedure", text)


def test_own_schema_and_case_of_the_head_are_no_difference() -> None:
    one, other = (
        parsed("view", f"CREATE {words} `v` AS select {place}`t`.`a` AS `a` from {{}}".format(table))
        for words, place, table in (
            ("ALGORITHM=UNDEFINED DEFINER=`a`@`b` SQL SECURITY DEFINER VIEW", "`s`.", "`s`.`t`"),
            ("algorithm=undefined sql security definer view", "", "`t`"),
        )
    )
    assert one.meaning("s") == other.meaning("s")
    assert one.meaning("t") != other.meaning("t")


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("view", "CREATE TABLE t (a INT)"),
        ("view", "CREATE DEFINER=`a`"),
        ("procedure", "CREATE DEFINER=`a`@`b` FUNCTION `f`() RETURNS INT RETURN 1"),
        ("trigger", "CREATE DEFINER=`a`@`b` TRIGGER `t` BEFORE INSERT"),
        ("event", "CREATE DEFINER=`a`@`b` EVENT `e` ON SCHEDULE EVERY 1 DAY"),
    ],
)
def test_a_head_of_another_form_is_refused(kind: Kind, text: str) -> None:
    with pytest.raises(DMError, match="36067"):
        parsed(kind, text).head  # noqa: B018


def test_a_name_that_a_character_set_lacks_is_refused() -> None:
    assert encoded("é", "latin1") == b"\xe9"
    assert encoded("名", "utf8mb4") == "名".encode()
    for charset in ("latin1", "koi8r"):
        with pytest.raises(DMError, match="48972"):
            encoded("名", charset)
