"""Statements are cut out of a dump file where the server would cut them, and understood or refused."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dm.dumpfiles.local_storage import LocalStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.loader import sql_source
from dm.loader.sql_source import SqlSource, SqlText, opened
from dm.loader.sql_statement import NotUnderstood, Rows, Setting, understand

NOWHERE = "some.sql"
TABLE = TableName("s", "t")

quotes = st.builds(
    lambda quote, inside: quote + inside.replace("\\", "\\\\").replace(quote, quote * 2) + quote,
    st.sampled_from(["'", '"', "`"]),
    st.text("a;'\"`\\-/*#\n", max_size=12),
).filter(lambda text: not (text[0] == "`" and "\\" in text))
comments = st.sampled_from(["-- a;b'\n", '# a;"\n', "/* ; ' */", "/*!40101 SET x */", "--\n"])
plain = st.sampled_from(["INSERT", " ", "\n", "(", ")", ",", "- ", "-1", "/ ", "5--3", "é", "\0"])
statements = st.lists(quotes | comments | plain, max_size=10).map("".join)


def cut(data: bytes, block: int = 7, largest: int = 1 << 20) -> list[SqlText]:
    stream = io.BytesIO(data)
    return list(SqlSource(lambda _size: stream.read(block), NOWHERE, largest))


@given(st.lists(statements, max_size=6), st.integers(1, 9))
def test_statements_come_back_whatever_they_hold_and_however_they_are_read(texts: list[str], block: int) -> None:
    data = b"".join(text.encode() + b";" for text in texts)
    found = cut(data, block)
    assert [each.text for each in found] == [text.encode() for text in texts]
    assert [data[each.offset :].startswith(each.text + b";") for each in found] == [True] * len(texts)


@pytest.mark.parametrize("rest", [b"INSERT", b"'open", b"/* open", b"a; INSERT INTO t VALUES (1", b"`"])
def test_a_file_that_ends_in_a_statement_is_damaged(rest: bytes) -> None:
    with pytest.raises(DMError, match="is damaged"):
        cut(b"SELECT 1;" + rest)


def test_comments_at_the_end_are_no_statement() -> None:
    assert len(cut(b"a;\n-- dm.chunk {'}\n# it's\n/* ' */\n--")) == 1


def test_a_statement_that_the_target_can_not_take_is_not_gathered() -> None:
    with pytest.raises(DMError) as caught:
        cut(b"x" * 100_000, block=1000, largest=5000)
    assert caught.value.name == "load-statement-too-large"


def content(path: Path) -> bytes:
    with opened(LocalStorage(path.parent), path.name) as read:
        parts = []
        while part := read(1000):
            parts.append(part)
        return b"".join(parts)


def test_packed_files_are_read_and_cut_off_ones_are_damaged(tmp_path: Path) -> None:
    data = b"INSERT INTO t VALUES (1);\n" * 20_000
    frame = zstandard.ZstdCompressor().compress
    for name, packed in (
        ("a.sql", data),
        ("b.sql.gz", gzip.compress(data)),
        ("c.sql.zst", frame(data[:5000]) + frame(data[5000:])),
    ):
        path = tmp_path / name
        path.write_bytes(packed)
        assert content(path) == data
        path.write_bytes(packed[:-7])
        if name != "a.sql":
            with pytest.raises(DMError, match="is damaged"):
                content(path)


@pytest.mark.parametrize(
    ("text", "setting"),
    [
        ("/*!40101 SET NAMES binary*/", Setting(charset="binary")),
        ("\n/*!40103 SET TIME_ZONE='+00:00' */", Setting("SET SESSION time_zone = '+00:00'", name="time_zone")),
        ("/*!40014 SET FOREIGN_KEY_CHECKS=0*/", Setting(name="foreign_key_checks")),
        ("SET SQL_MODE='NO_AUTO_VALUE_ON_ZERO,STRICT_TRANS_TABLES'", Setting()),
        ("USE `s`", Setting()),
    ],
)
def test_settings_of_dump_tools(text: str, setting: Setting) -> None:
    assert understand(text.encode(), TABLE) == setting


@pytest.mark.parametrize(
    "text",
    [
        "USE other", "DROP TABLE t", "/*!40101 SET NAMES gbk*/", "SET SQL_MODE='ANSI_QUOTES'", "SET GLOBAL x = 1",
        "INSERT INTO t SELECT 1", "/*!50000 INSERT INTO t */ SELECT 1", "LOAD DATA INFILE 'x' INTO TABLE t",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    assert isinstance(understand(text.encode(), TABLE), NotUnderstood)


@pytest.mark.parametrize(
    ("head", "schema", "table", "columns"),
    [
        ("INSERT INTO `t` VALUES\n", "", "t", ()),
        ("-- a\nINSERT IGNORE INTO t (a, `b``(`) VALUES ", "", "t", ("a", "b`(")),
        ("REPLACE INTO `s`.`t`(`a`)VALUES", "s", "t", ("a",)),
        ("insert into `t` () values ", "", "t", ()),
    ],
)
def test_the_beginning_of_an_insert(head: str, schema: str, table: str, columns: tuple[str, ...]) -> None:
    found = understand(f"{head}(1,'INSERT INTO `x` VALUES (')".encode(), TABLE)
    assert isinstance(found, Rows)
    assert (found.schema, found.table, found.columns) == (schema, table, columns)
    assert found.text[found.rows_at :] == b"(1,'INSERT INTO `x` VALUES (')"


def test_a_long_value_is_read_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    monkeypatch.setattr(sql_source, "_BLOCK", 16)
    stream = io.BytesIO(b"'" + b"x" * 100_000 + b"';")

    def read(size: int) -> bytes:
        asked.append(size)
        return stream.read(size)

    assert len(list(SqlSource(read, NOWHERE, 1 << 20))) == 1
    assert len(asked) < 20
