"""Statements are cut out of a dump file where the server would cut them, and understood or refused."""

from __future__ import annotations

import gzip
import io
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from dm.dumpfiles.storage import LocalStorage
from dm.errors import DMError
from dm.ident import TableName
from dm.loader import sql_source
from dm.loader.sql_source import InsertStatement, NotUnderstood, Setting, SqlSource, SqlText, opened, understand

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
    with patch.object(sql_source, "_BLOCK", block):
        return list(SqlSource(io.BytesIO(data).read, NOWHERE, largest))


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
    assert isinstance(found, InsertStatement)
    assert (found.schema, found.table, found.columns) == (schema, table, columns)
    assert found.text[found.rows_at :] == b"(1,'INSERT INTO `x` VALUES (')"


class Looked:
    """The pattern that passes over tokens, with a count of what it has passed over."""

    def __init__(self) -> None:
        self.calls = self.bytes = 0

    def match(self, text: bytes, at: int) -> re.Match[bytes] | None:
        found = RUN.match(text, at)
        assert found is not None
        self.calls += 1
        self.bytes += found.end() - at
        return found


RUN = sql_source._RUN


def in_pieces(text: bytes, most: int) -> Callable[[int], bytes]:
    """A reader that gives that many bytes at most."""
    stream = io.BytesIO(text)
    return lambda size: stream.read(min(size, most))


@pytest.mark.parametrize("most", [1 << 30, 10], ids=["whole blocks", "a reader that gives little"])
def test_a_long_value_or_comment_is_read_in_proportion(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_source, "_BLOCK", 16)
    for text in (b"'" + b"x" * 100_000 + b"';", b"-- " + b"-" * 100_000 + b"\na;", b"/*" + b"-" * 100_000 + b"*/;"):
        looked = Looked()
        monkeypatch.setattr(sql_source, "_RUN", looked)
        assert len(list(SqlSource(in_pieces(text, most), NOWHERE, 1 << 20))) == 1
        assert looked.calls < 40
        assert looked.bytes < 5 * len(text)


def test_many_small_statements_are_cut_in_proportion() -> None:
    class Copied(bytes):
        """Counts the bytes of each part that is cut out of it."""

        total = 0

        def __getitem__(self, at: Any) -> Any:
            found = super().__getitem__(at)
            if isinstance(found, int):
                return found
            Copied.total += len(found)
            return Copied(found)

    source = SqlSource(io.BytesIO(b"").read, NOWHERE, 1 << 20)
    source._buffer = Copied(b"a;" * 10_000)
    assert len(list(source)) == 10_000
    assert Copied.total < 5 * 20_000


def test_a_small_packed_file_that_is_large_inside_comes_in_pieces(tmp_path: Path) -> None:
    content = b"\0" * (1 << 26)
    path = tmp_path / "a.sql.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(content))
    assert path.stat().st_size < 1 << 16
    pieces = []
    with opened(LocalStorage(tmp_path), path.name) as read:
        while part := read(1 << 20):
            pieces.append(len(part))
    assert sum(pieces) == len(content)
    assert max(pieces) <= 1 << 25


def test_what_is_no_file_is_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "metadata")
    (tmp_path / "a.sql").symlink_to("/dev/zero")
    (tmp_path / "b.sql").symlink_to("nowhere")
    storage = LocalStorage(tmp_path)
    assert sorted(storage.names()) == ["a.sql", "b.sql", "metadata"]
    for name in ("metadata", "a.sql"):
        with pytest.raises(OSError, match="not a regular file"):
            storage.open(name)
        with pytest.raises(OSError, match="not a regular file"):
            storage.size(name)
    for name in ("a.sql", "b.sql"):
        with pytest.raises(DMError, match="is damaged"), opened(storage, name):
            pass
