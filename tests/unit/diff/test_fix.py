"""The statements for a row, as a client reads them."""

from collections import Counter

import pytest

from dm.diff.fix import fix_of
from dm.diff.table import ComparedTable, Origin, compared_table
from dm.equality.structure import ColumnFacts, Structure
from dm.equality.values import text_of
from dm.ident import TableName

TARGET, SOURCE = TableName("t", "orders"), TableName("s", "orders")
NONE: Counter[bytes] = Counter()


def column(name: str, type_: str, charset: str | None = None, generated: str = "") -> ColumnFacts:
    return ColumnFacts(name, type_, True, None, charset, None, "", generated, "")


COLUMNS = (
    column("id", "int"), column("v`x", "varchar(9)", "latin1"), column("d", "double"),
    column("e", "enum('a','b')", "utf8mb4"),
    column("at", "datetime(3)"), column("b", "blob"), column("g", "int", generated="virtual id"), column("j", "json"),
)  # fmt: skip
ROW = (b"7", b"\xe4'", b"0.1", b"b", b"2", b"2024-01-02 03:04:05.600", b"\x00\\", b"8", b'{"a": "it\'s"}')


def table(key: tuple[str, ...], *, tidb: bool = False) -> ComparedTable:
    structure = Structure(COLUMNS, key, frozenset(), frozenset())
    origins = [Origin(0, SOURCE, structure, "mysql", {})]
    return compared_table(TARGET, structure, "mysql", origins, frozenset(), json_types=False, tidb=tidb)


def test_a_row_that_is_missing_is_written_whole() -> None:
    keyed = table(("id",))
    fix = fix_of(keyed, (keyed.origins[0], ROW), None, Counter([b"x"]), NONE)
    assert fix.deletions == ()
    assert fix.insertions == (
        b"REPLACE INTO `t`.`orders` (`id`, `v``x`, `d`, `e`, `at`, `b`, `j`) VALUES (7, _latin1 0xe427, '0.1', 2,"
        b" '2024-01-02 03:04:05.600', 0x005c, '{\"a\": \"it''s\"}')",
    )


def test_an_error_value_of_an_enum_is_written_in_a_lenient_session() -> None:
    keyed = table(("id",))
    row = tuple(b"0" if part.base == "enum" else value for part, value in zip(keyed.origins[0].row, ROW, strict=True))
    (insertion,) = fix_of(keyed, (keyed.origins[0], row), None, Counter([b"x"]), NONE).insertions
    assert insertion.startswith(
        b"REPLACE /*+ SET_VAR(sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES') */ INTO `t`"
    )


def test_for_a_tidb_the_session_is_lenient_for_one_statement() -> None:
    keyed = table(("id",), tidb=True)
    side = keyed.origins[0]
    row = tuple(b"0" if part.base == "enum" else b"7" for part in side.row)
    (insertion,) = fix_of(keyed, (side, row), None, Counter([b"x"]), NONE).insertions
    before, statement, after = insertion.split(b";\n")
    assert before.startswith(b"SET @dm_mode = @@SESSION.sql_mode, SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO")
    assert statement.startswith(b"REPLACE INTO `t`")
    assert after == b"SET SESSION sql_mode = @dm_mode"


def test_a_text_of_a_tidb_is_named_in_utf_8() -> None:
    row = tuple(
        "ä".encode() if part.label == "v`x" else value
        for part, value in zip(table(("v`x",), tidb=True).target.row, ROW, strict=True)
    )
    (deletion,) = fix_of(table(("v`x",), tidb=True), None, row, NONE, Counter([b"x"])).deletions
    assert deletion == "DELETE FROM `t`.`orders` WHERE `v``x` = 'ä'".encode()


def test_a_row_that_is_too_much_is_deleted_by_its_key() -> None:
    fix = fix_of(table(("id", "v`x")), None, ROW, NONE, Counter([b"x"]))
    assert fix.deletions == (b"DELETE FROM `t`.`orders` WHERE `id` = 7 AND `v``x` = _latin1 0xe427",)
    assert fix.insertions == ()


def test_rows_without_a_key_go_by_their_hash_and_come_as_often_as_they_are_missing() -> None:
    keyless = table(())
    text = text_of(keyless.target.row, ROW)
    fix = fix_of(keyless, (keyless.origins[0], ROW), ROW, Counter({text: 2}), Counter({text: 3}))
    (deletion,) = fix.deletions
    assert deletion.startswith(b"DELETE FROM `t`.`orders` WHERE SHA2(CONCAT(")
    assert deletion.endswith(b" LIMIT 3")
    assert [each.split(b" ")[0] for each in fix.insertions] == [b"INSERT", b"INSERT"]


@pytest.mark.parametrize(("key", "keyed"), [(("ID",), True), ((), False), (("gone",), False)])
def test_a_key_is_one_that_is_compared(key: tuple[str, ...], keyed: bool) -> None:
    assert table(key).keyed is keyed


@pytest.mark.parametrize(
    ("type_", "charset", "text"),
    [
        ("varchar(9)", "utf8mb4", "CAST(_utf8mb4 'é' AS BINARY)"),
        ("varchar(9)", "latin1", "CAST(CONVERT(_utf8mb4 'é' USING utf8mb4) AS BINARY)"),
        ("int", None, "CAST(CONVERT(_utf8mb4 'é' USING utf8mb4) AS BINARY)"),
        ("enum('é','e')", "latin1", "CAST(CONVERT(_utf8mb4 'é' USING utf8mb4) AS BINARY)"),
        ("varbinary(9)", None, "CAST(CONVERT(_utf8mb4 'é' USING utf8mb4) AS BINARY)"),
    ],
)
def test_a_part_of_a_name_is_text_whatever_column_it_goes_into(type_: str, charset: str | None, text: str) -> None:
    ours = Structure(COLUMNS[:1], ("id",), frozenset(), frozenset())
    theirs = Structure((*COLUMNS[:1], column("src", type_, charset)), ("id",), frozenset(), frozenset())
    origin = Origin(0, SOURCE, ours, "mysql", {"src": "_utf8mb4 'é'"})
    found = compared_table(TARGET, theirs, "mysql", [origin], frozenset(), json_types=False)
    assert found.origins[0].row[1].text == text


def test_a_column_that_one_side_lacks_is_left_out_unless_its_value_is_known() -> None:
    ours = Structure(COLUMNS[:1], ("id",), frozenset(), frozenset())
    theirs = Structure((*COLUMNS[:1], column("src", "varchar(9)", "utf8mb4")), ("id",), frozenset(), frozenset())
    for constants, labels in (({}, ["id"]), ({"src": "_utf8mb4 'one'"}, ["id", "src"])):
        origin = Origin(0, SOURCE, ours, "mysql", constants)
        found = compared_table(TARGET, theirs, "mysql", [origin], frozenset(), json_types=False)
        assert [part.label for part in found.origins[0].row] == labels
    assert found.origins[0].row[1].read == "_utf8mb4 'one'"
