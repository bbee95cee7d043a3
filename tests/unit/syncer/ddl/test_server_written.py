"""What a CREATE TABLE that a server wrote leaves open is what the source's table of now says, or pauses."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.query import QuerySession
from dm.mysql.binlog.reader import Query
from dm.mysql.dialect import Flavor
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.sourcelog.stream.source_server import PresentTable
from dm.syncer.ddl.server_written import SourceNow, meant_text

UTF8MB4 = Collated("utf8mb4", "utf8mb4_general_ci")
AT = 1_700_000_000


def context(flavor: Flavor = "mariadb") -> SourceContext:
    return SourceContext(flavor, 101100 if flavor == "mariadb" else 90700, "d")


def source(*texts: str, created: int | None = AT, default: Collated | None = UTF8MB4) -> SourceNow:
    tables = [parse_create_table(text, context()) for text in texts]
    present = {table.name: PresentTable(text, table, created) for table, text in zip(tables, texts, strict=True)}
    tracked = {TableName("d", "é"): True}
    return SourceNow(present.get, tracked.get, lambda _: default, lambda table: table.schema == "d")


def query(sql: str, *, temporary: bool = False, schema: str = "d") -> Query:
    return Query(schema, sql.encode(), QuerySession(charset=(8, 8, 45)), AT, 1, 0, 0, temporary)


SELECTED = "CREATE TABLE `é` (\n  `a` int(11) DEFAULT NULL COMMENT 'ü'\n)"


@pytest.mark.parametrize("word", ["é", "Ã©"])
def test_of_two_readings_the_one_whose_table_is_there_is_meant(word: str) -> None:
    text = SELECTED if word == "é" else SELECTED.encode().decode("latin-1")
    assert meant_text(query(SELECTED), context(), source(text)) == text


@pytest.mark.parametrize(
    "there", [(), ("CREATE TABLE `é` (`a` int COMMENT 'x')",), (SELECTED, SELECTED.encode().decode("latin-1"))]
)
def test_of_two_readings_neither_is_taken_where_the_source_does_not_tell(there: tuple[str, ...]) -> None:
    with pytest.raises(DMError) as caught:
        meant_text(query(SELECTED), context(), source(*there))
    assert caught.value.name == "statement-charset-unclear"
    assert meant_text(query(SELECTED, schema="other"), replace(context(), schema="other"), source(*there))


def test_a_backslash_that_may_be_an_escape_pauses_for_tables_of_the_task_only() -> None:
    text = "CREATE TABLE `t` (\n  `a` int(11) DEFAULT NULL COMMENT 'a\\\\b'\n)"
    mode = replace(context(), no_backslash_escapes=True)
    with pytest.raises(DMError) as caught:
        meant_text(query(text), mode, source())
    assert caught.value.name == "ddl-not-understood"
    assert meant_text(query(text, schema="other"), replace(mode, schema="other"), source()) == text


LIKE = "CREATE TABLE `t` (\n  `a` {} DEFAULT NULL,\n  `b` text CHARACTER SET utf8mb4 DEFAULT NULL\n) ENGINE=InnoDB"


@pytest.mark.parametrize(
    ("default", "words"),
    [
        ("latin1", "CHARACTER SET latin1"),
        ("latin1 COLLATE=latin1_bin", "CHARACTER SET latin1 COLLATE latin1_bin"),
        ("utf8mb4 COLLATE=utf8mb4_bin", "CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"),
        ("utf8mb4", ""),  # its schema's
    ],
)
def test_a_table_like_a_temporary_one_gets_the_default_that_the_source_has(default: str, words: str) -> None:
    text = LIKE.format("text")
    asked = source(f"{text} DEFAULT CHARSET={default}")
    wanted = text.replace("\n) ", f"\n) {words} ") if words else text
    assert meant_text(query(text, temporary=True), context(), asked) == wanted
    assert meant_text(query(text), context(), asked) == text  # nothing says that it is like a temporary one


@pytest.mark.parametrize(
    ("there", "created"),
    [
        (None, AT),
        ("{} DEFAULT CHARSET=latin1", AT + 2),  # altered since
        ("{} DEFAULT CHARSET=latin1", AT - 1),  # another table
        ("{} DEFAULT CHARSET=latin1", None),
        ("CREATE TABLE `t` (`a` text) DEFAULT CHARSET=latin1", AT),
    ],
)
def test_a_table_like_a_temporary_one_that_the_source_has_no_more_pauses_unless_rows_will_tell(
    there: str | None, created: int | None
) -> None:
    def read(kind: str, default: Collated | None, flavor: Flavor = "mariadb") -> str:
        text = LIKE.format(kind)
        asked = source(*([] if there is None else [there.format(text)]), created=created, default=default)
        return meant_text(query(text, temporary=True), context(flavor), asked)

    for kind, default in (("text", UTF8MB4), ("varchar(9)", Collated("latin1", "latin1_bin")), ("varchar(9)", None)):
        with pytest.raises(DMError) as caught:
            read(kind, default)
        assert caught.value.name == "ddl-charset-unclear"
        assert read(kind, default, "mysql") == LIKE.format(kind)  # its table maps name character sets
    for kind in ("varchar(9)", "char(1)"):
        assert read(kind, UTF8MB4) == LIKE.format(kind)  # its table maps tell bytes
    assert read("int", None) == LIKE.format("int")


@pytest.mark.parametrize("name", ["é", "Ã©"])
def test_of_two_readings_of_a_drop_the_one_whose_table_is_known_is_meant(name: str) -> None:
    text = "DROP TABLE `é`,`x` /* generated by server */"
    now = replace(source(), tracked={TableName("d", name): True, TableName("d", "x"): True}.get)
    assert meant_text(query(text), context(), now) == text.replace("é", name)


def test_a_drop_of_unknown_tables_is_in_utf8_where_a_server_was_seen_to_write_it() -> None:
    text = "DROP TABLE IF EXISTS `ü` /* generated by server */"
    assert meant_text(query(text), SourceContext("mysql", 50624, "d"), source()) == text
    assert meant_text(query(text, schema="other"), replace(context(), schema="other"), source())
    for other in (context(), SourceContext("mysql", 90700, "d")):
        with pytest.raises(DMError) as caught:
            meant_text(query(text), other, source())
        assert caught.value.name == "statement-charset-unclear"
    sent = query(text)
    sent.sql = text.encode("latin-1")  # no UTF-8
    assert meant_text(sent, context(), source()) == text


def test_a_reading_whose_quotes_have_no_end_is_not_meant() -> None:
    text = "DROP TABLE `d中` /* generated by server */"
    sent = Query("d", text.encode(), QuerySession(charset=(28, 28, 45)), AT, 1, 0, 0)
    assert "`" not in sent.readings[0].removeprefix("DROP TABLE `")
    assert meant_text(sent, SourceContext("mysql", 50624, "d"), source()) == text
