"""What is made of values that were read, and what their types have to do with it."""

import re
from dataclasses import replace

import pytest

from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.equality.structure import ColumnFacts
from dm.mysql.equality.values import ComparedValue, Form, Side, parts, row_text, shown, text_of

TABLE = TableName("s", "t")


def side(type_: str, *, charset: str | None = None, flavor: Flavor = "mysql") -> Side:
    return Side(ColumnFacts("v", type_, True, None, charset, None, "", "", ""), TABLE, flavor)


def canonical(one: Side, other: Side, value: bytes, other_value: bytes) -> bool:
    """Whether the two values are the same."""
    (left, *_), (right, *_) = parts([one, other])
    return left.canonical(value) == right.canonical(other_value)


@pytest.mark.parametrize(
    ("one", "other", "value", "other_value", "same"),
    [
        ("decimal(10,2)", "decimal(12,3)", b"1.50", b"1.500", True),
        ("decimal(10,2)", "decimal(12,3)", b"1.50", b"1.501", False),
        ("int", "decimal(12,3)", b"7", b"7.000", True),
        ("int", "bigint unsigned", b"7", b"7", True),
        ("datetime", "datetime(3)", b"2024-01-02 03:04:05", b"2024-01-02 03:04:05.000", True),
        ("time(1)", "time(6)", b"-00:00:00.5", b"-00:00:00.500000", True),
        ("date", "datetime", b"2024-01-02", b"2024-01-02 00:00:00", True),
        ("date", "datetime", b"2024-01-02", b"2024-01-02 00:00:01", False),
        ("float", "double", b"0.5", b"5e-1", True),
        ("double", "double", b"0.1", b"0.10000000000000002", False),
        ("double", "double", b"-0", b"0", False),
        ("int", "varchar(10)", b"7", b"7", True),
        ("blob", "varbinary(10)", b"a", b"a\0", False),
    ],
)
def test_equal_whatever_the_types_print(one: str, other: str, value: bytes, other_value: bytes, same: bool) -> None:
    assert canonical(side(one), side(other), value, other_value) is same


def test_the_sign_of_zero_counts_where_both_sides_tell_it() -> None:
    mysql, mariadb = side("double"), side("double", flavor="mariadb")
    assert canonical(mysql, mariadb, b"-0", b"0")
    assert canonical(mysql, mariadb, b"-0.5", b"-0.5")
    assert canonical(mysql, at_tidb("double"), b"-0", b"0")
    assert not canonical(mysql, at_tidb("double"), b"-0.5", b"0.5")


@pytest.mark.parametrize(
    ("text", "other", "same"),
    [
        (b'{"a": 1, "b": [true, null]}', b'{"b":[true,null],"a":1}', True),
        (b'{"a": 1}', b'{"a": 1.0}', False),
        (b"[1.50]", b"[15e-1]", True),
        (b"[18446744073709551615]", b"[18446744073709551616]", False),
        (b"[18446744073709551616]", b"[1.8446744073709552e19]", True),
        (b'{"a": 2, "a": 1}', b'{"a": 1}', True),
        (b'"\\u00e4\\/"', '"ä/"'.encode(), True),
        (b'"1"', b"1", False),
        (b'"\\ud800"', b'"x"', False),
        (b"not JSON", b"not JSON", True),
        (b"not JSON", b"not  JSON", False),
        (b"[NaN]", b"[NaN ]", False),
    ],
)
def test_documents_of_two_flavours(text: bytes, other: bytes, same: bool) -> None:
    assert canonical(side("json"), side("longtext", charset="utf8mb4", flavor="mariadb"), text, other) is same


def test_only_a_client_compares_documents_of_two_flavours() -> None:
    rows = parts([side("json"), side("longtext", charset="utf8mb4", flavor="mariadb")])
    assert [row_text(row) for row in rows] == [None, None]


@pytest.mark.parametrize(
    ("one", "other", "words"),
    [
        (side("varchar(9)", charset="gbk"), side("varchar(9)", charset="gbk"), "CAST(`v` AS BINARY)"),
        (side("varchar(9)", charset="utf8mb3"), side("text", charset="utf8mb4"), "CAST(`v` AS BINARY)"),
        (
            side("varchar(9)", charset="latin1"),
            side("varchar(9)", charset="utf8mb4"),
            "CAST(CONVERT(`v` USING utf8mb4) AS BINARY)",
        ),
        (
            side("char(9)", charset="utf8mb4"),
            side("varchar(9)", charset="utf8mb4"),
            "CAST(TRIM(TRAILING ' ' FROM CONVERT(`v` USING utf8mb4)) AS BINARY)",
        ),
        (side("binary(4)"), side("binary(8)"), "CAST(TRIM(TRAILING x'00' FROM `v`) AS BINARY)"),
        (side("binary(4)"), side("binary(4)"), "CAST(`v` AS BINARY)"),
    ],
)
def test_texts_are_converted_and_trimmed_only_where_the_sides_differ(one: Side, other: Side, words: str) -> None:
    assert [part.text for row in parts([one, other]) for part in row] == [words, words]


def test_the_numbers_of_members_count_where_the_lists_are_the_same() -> None:
    same = parts([side("enum('a','b')"), side("enum('a','b')")])
    assert [[part.label for part in row] for row in same] == [["v", "v (number)"]] * 2
    other = parts([side("enum('a','b')"), side("enum('b','a')")])
    assert [[part.label for part in row] for row in other] == [["v", "v (a member)"]] * 2


@pytest.mark.parametrize("forms", [("framed", "framed"), ("whole", "whole"), ("whole", "framed"), ("framed", "whole")])
def test_no_two_rows_share_a_text(forms: tuple[Form, Form]) -> None:
    row = [ComparedValue(name, name, name, lambda value: value, form) for name, form in zip("ab", forms, strict=True)]
    rows: list[tuple[bytes | None, bytes | None]] = [
        (b"", b""), (b",", b""), (b"", b","), (None, b""), (b"", None), (None, None), (b"N", None), (None, b"N"),
        (b"1:x", b""), (b"", b"1:x"), (b"a,1:b", b"c"), (b"a", b"b,1:c"), (b"0:", b""), (b"", b"0:"),
        ("ÿ".encode(), "þ".encode()), ("þ".encode(), "ÿ".encode()), (b"ab", b"c"), (b"a", b"bc"),
    ]  # fmt: skip
    assert len({text_of(row, values) for values in rows}) == len(rows)


def test_a_text_stands_as_it_is_where_it_is_utf_8_on_all_sides() -> None:
    latin, ascii_, mixed = (side("varchar(9)", charset=charset) for charset in ("latin1", "ascii", "utf8mb4"))
    forms = {
        (one.column.charset, other.column.charset, other.flavor): {
            part.form for row in parts([one, other]) for part in row
        }
        for one in (latin, ascii_, mixed)
        for other in (latin, ascii_, mixed, at_tidb("varchar(9)", charset="utf8mb4"))
    }
    whole = [("latin1", "ascii"), ("latin1", "utf8mb4"), ("ascii", "latin1"), ("utf8mb4", "latin1"), ("utf8mb4",) * 2]
    assert {key for key, found in forms.items() if found == {"whole"}} == {(*pair, "mysql") for pair in whole}
    assert {
        form for key, found in forms.items() for form in found if (key[0], key[1]) not in whole or key[2] == "tidb"
    } == {"framed"}


def test_values_for_people() -> None:
    assert [shown(value) for value in (None, b"a", b"\xff\x00", b"a\nb")] == ["NULL", "a", "0xff00", '"a\\nb"']


def at_tidb(type_: str, *, charset: str | None = None) -> Side:
    return replace(side(type_, charset=charset), flavor="tidb")


def test_documents_beside_a_tidb_count_by_what_they_say() -> None:
    assert canonical(side("json"), at_tidb("json"), b'{"a": 1, "bb": 2.50}', b'{"bb": 2.5, "a": 1}')
    assert not canonical(side("json"), at_tidb("json"), b'{"a": 1}', b'{"a": 1.0}')
    assert all(row_text(row) is None for row in parts([side("json"), at_tidb("json")]))


def test_a_tidb_computes_no_checksum_of_floating_numbers() -> None:
    mysql, tidb = parts([side("double"), at_tidb("double")])
    assert row_text(mysql) is not None
    assert row_text(tidb) is None


def test_a_mysql_that_can_not_tell_a_documents_size_has_its_text_made_twice() -> None:
    """MySQL reads what is in such a comment from that version on: JSON_STORAGE_SIZE came with 5.7.22."""
    (part,) = parts([side("json"), side("json")])[0]
    newer, older = (re.sub(r"/\*!50722(.*?)\*/", kept, str(part.text)) for kept in (r"\1", ""))
    assert "JSON_STORAGE_SIZE(`v`) < @@max_allowed_packet DIV" in newer
    assert older == "IF( FALSE, CAST(`v` AS CHAR), NULLIF(CAST(`v` AS CHAR), ''))"


def test_no_number_of_a_wide_set_is_asked_of_a_tidb() -> None:
    wide, narrow = (f"set({str([f'm{n}' for n in range(count)])[1:-1].replace(' ', '')})" for count in (54, 53))
    for type_, numbers in ((wide, 1), (narrow, 2), (wide.replace("set", "enum"), 2)):
        ours, theirs = parts([side(type_), at_tidb(type_)])
        assert len(ours) == len(theirs) == numbers, type_
    assert len(parts([side(wide), side(wide)])[0]) == 2


def test_a_tidb_casts_no_text_to_bytes() -> None:
    """It would cut them at the column's number of characters."""
    mysql, tidb = parts([side("char(1)", charset="utf8mb4"), at_tidb("char(1)", charset="utf8mb4")])
    assert [part.text for part in (*mysql, *tidb)] == ["CAST(`v` AS BINARY)", "CONVERT(`v` USING binary)"]


def test_texts_beside_a_tidb_are_compared_in_utf8() -> None:
    mysql, tidb = parts([side("varchar(9)", charset="latin1"), at_tidb("varchar(9)", charset="latin1")])
    assert "USING utf8mb4" in mysql[0].read
    assert tidb[0].read == "`v`"  # CONVERT there takes it for ASCII
    for row in parts([side("varchar(9)", charset="gbk"), at_tidb("varchar(9)", charset="gbk")]):
        assert "USING utf8mb4" in row[0].read
    for row in parts([side("varchar(9)", charset="utf8mb4"), at_tidb("varchar(9)", charset="utf8mb4")]):
        assert "USING" not in row[0].read
