"""Texts are read as the server reads them, by its own tables of characters."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.binlog.charset import decoder_of, max_bytes
from dm.spark.session import SparkProvider
from dm.tools import lake
from tests.spark.conftest import LoadFactory
from tests.spark.test_fidelity import LENIENT
from tests.testbed.fixtures import SchemaFactory

pytestmark = [pytest.mark.live, pytest.mark.spark]

KNOWN_TO_SPARK = ("binary", "utf8mb3", "utf8mb4", "ucs2", "utf16", "utf16le", "utf32")
STAY_BINARY = {"dec8", "swe7", "armscii8", "geostd8", "keybcs2"}


def codes(charset: str) -> Iterator[bytes]:
    """All that may be a character, of gb18030's four bytes a part."""
    yield from (bytes([one]) for one in range(256))
    if max_bytes(charset) > 1:
        yield from (bytes([one, two]) for one in range(0x80, 256) for two in range(0x30, 256))
    if charset in ("ujis", "eucjpms"):
        yield from (bytes([0x8F, two, three]) for two in range(0xA1, 255) for three in range(0xA1, 255))
    if charset == "gb18030":
        digits = range(0x30, 0x3A)
        yield from (bytes([0x81, two, three, four]) for two in digits for three in range(0x81, 255) for four in digits)


def characters_of(server: ThrowawayServer, schema: str, charset: str) -> Iterator[tuple[bytes, str | None]]:
    """What a column may hold, and how the server reads that; None is no character."""
    connection = server.connect()
    with connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = '', NAMES utf8mb4")
        cursor.execute(f"USE `{schema}`")
        cursor.execute("CREATE TEMPORARY TABLE code (raw VARBINARY(4))")
        cursor.execute(f"CREATE TEMPORARY TABLE held (raw VARBINARY(4), text VARCHAR(4) CHARACTER SET {charset})")
        values = [f"(x'{code.hex()}')" for code in codes(charset)]
        for first in range(0, len(values), 5000):
            cursor.execute(f"INSERT INTO code VALUES {', '.join(values[first : first + 5000])}")
        cursor.execute("INSERT IGNORE INTO held SELECT raw, raw FROM code")
        cursor.execute(
            "SELECT raw, CONVERT(text USING utf8mb4) FROM held"
            " WHERE CAST(text AS BINARY) = raw AND CHAR_LENGTH(text) = 1"
        )
        for raw, text in cursor.fetchall():
            unknown = text == "\ufffd" and raw != bytes.fromhex("8431a437")
            yield raw, None if unknown or (text == "?" and raw != b"?") else text


@pytest.mark.ci_flavor("mysql")
def test_every_character_is_the_servers(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    charsets = {row[0] for row in upstream.query("SELECT CHARACTER_SET_NAME FROM information_schema.CHARACTER_SETS")}
    assert {charset for charset in charsets if decoder_of(charset) is None} == STAY_BINARY
    for charset in sorted(charsets - STAY_BINARY - set(KNOWN_TO_SPARK)):
        decode = decoder_of(charset)
        assert decode is not None
        found = list(characters_of(upstream, name, charset))
        assert len(found) >= 128
        wrong = [(raw.hex(), text, decode(raw)) for raw, text in found if decode(raw) != text]
        assert not wrong, (charset, wrong[:10])
        whole = [(raw, text) for raw, text in found if text is not None]
        assert decode(b"".join(raw for raw, _ in whole)) == "".join(text for _, text in whole), charset


def test_what_stands_for_no_character_is_null_and_flagged(
    mariadb: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(
        mariadb,
        mariadb,
        LENIENT,
        "CREATE TABLE t (id INT PRIMARY KEY, c VARCHAR(9) CHARACTER SET cp866, k VARCHAR(9) CHARACTER SET koi8u,"
        " b TEXT CHARACTER SET big5, e VARCHAR(9) CHARACTER SET eucjpms, s VARCHAR(9) CHARACTER SET sjis,"
        " w CHAR(9) CHARACTER SET cp1251, a CHAR(9) CHARACTER SET ascii, l CHAR(9) CHARACTER SET latin1,"
        " n ENUM('x') CHARACTER SET cp866)",
        "INSERT INTO t VALUES (1, 'ⁿ²', '•', '恒', '～№塚', x'815f5c8340', 'ж', 'a', x'81', 'x')",
        "INSERT INTO t VALUES (2, '', '', _big5 x'41a15a', x'41ada241', '', x'4198', _binary x'c3a9', '', 'x')",
        "INSERT INTO t (id) VALUES (3)",
        mode="dump",
    )
    load.dump()
    frame = lake.table(spark.session(), load.directory, f"{load.schema}.t")
    assert frame.columns == [
        "id", "c", "c__invalid", "k", "k__invalid", "b", "b__invalid", "e", "e__invalid", "s", "s__invalid",
        "w", "w__invalid", "a", "a__invalid", "l", "n",
    ]  # fmt: skip
    one, two, three = (row.asDict() for row in frame.orderBy("id").collect())
    assert [one[name] for name in "ckbeswal"] == ["ⁿ²", "•", "恒", "～№塚", "\\\\ァ", "ж", "a", "\x81"]
    assert [two[name] for name in "ckbeswal"] == ["", "", None, "A②A", "", None, None, ""]
    assert [three[name] for name in "ckbeswal"] == [None] * 8
    assert {name for name in two if two[name] is True} == {"b__invalid", "w__invalid", "a__invalid"}
    assert not any(value is True for row in (one, three) for value in row.values())


@pytest.mark.ci_flavor("mysql")
def test_a_half_of_a_character_is_null_and_flagged(
    upstream: ThrowawayServer, full_load: LoadFactory, spark: SparkProvider
) -> None:
    load = full_load(
        upstream,
        upstream,
        "CREATE TABLE t (id INT PRIMARY KEY, u VARCHAR(9) CHARACTER SET ucs2, v VARCHAR(9) CHARACTER SET utf16)",
        "INSERT INTO t VALUES (1, _ucs2 x'00e9', _utf16 x'd83dde00'), (2, _ucs2 x'd800', ''),"
        " (3, _ucs2 x'0061dc000062', ''), (4, _ucs2 x'd83dde00', ''), (5, NULL, NULL)",
        mode="dump",
    )
    load.dump()
    found = lake.table(spark.session(), load.directory, f"{load.schema}.t").orderBy("id").collect()
    assert [(row.u, row.u__invalid) for row in found] == [("é", False), *[(None, True)] * 3, (None, False)]
    assert [(row.v, row.v__invalid) for row in found] == [("\U0001f600", False), *[("", False)] * 3, (None, False)]
