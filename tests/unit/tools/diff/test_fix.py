"""The statements for a row, as a client reads them."""

from collections import Counter
from dataclasses import replace

import pytest

from dm.ident import TableName
from dm.mysql.dialect import Flavor
from dm.mysql.equality.structure import ColumnFacts, Structure
from dm.mysql.equality.values import text_of
from dm.mysql.sql.json_literal import NOTHING
from dm.mysql.types.members import ENUM
from dm.tools.diff.fix import Fix, fix_of, in_order
from dm.tools.diff.table import ComparedTable, DiffSource, compared_table

TARGET, SOURCE = TableName("t", "orders"), TableName("s", "orders")
NONE: Counter[bytes] = Counter()


def column(name: str, type_: str, charset: str | None = None, generated: str = "", extra: str = "") -> ColumnFacts:
    return ColumnFacts(name, type_, True, None, charset, None, extra, generated, "")


COLUMNS = (
    column("id", "int"), column("v`x", "varchar(9)", "latin1"), column("d", "double"),
    column("e", "enum('a','b')", "utf8mb4"),
    column("at", "datetime(3)"), column("b", "blob"), column("g", "int", generated="virtual id"), column("j", "json"),
)  # fmt: skip
ROW = (b"7", b"\xe4'", b"0.1", b"b", b"2", b"2024-01-02 03:04:05.600", b"\x00\\", b"8", b'{"a": "it\'s"}')


def table(
    key: tuple[str, ...],
    *more: ColumnFacts,  # that only the target has
    tidb: bool = False,
    ignored: frozenset[str] = frozenset(),
    indexes: frozenset[str] = frozenset({"UNIQUE PRIMARY (`id`)", "INDEX i (`d`)"}),
    json_types: bool = False,
) -> ComparedTable:
    ours = Structure(COLUMNS, key, indexes, frozenset())
    theirs = Structure((*COLUMNS, *more), key, indexes, frozenset())
    origins = [DiffSource(0, SOURCE, ours, "mysql", {})]
    return compared_table(TARGET, theirs, "tidb" if tidb else "mysql", origins, ignored, json_types=json_types)


def row_with(table: ComparedTable, **values: bytes | None) -> tuple[bytes | None, ...]:
    """The row with other values of some parts; `e` is the number of the member."""
    by_label = dict(zip((part.label for part in globals()["table"](("id",)).target.row), ROW, strict=True))
    by_label["j (types)"] = NOTHING
    for name, value in values.items():
        by_label["e (number)" if name == "e" else name] = value
    return tuple(by_label.get(part.label, b"") for part in table.target.row)


def changed(table: ComparedTable, **values: bytes | None) -> Fix:
    """For a row that has other values at the target."""
    return fix_of(table, (table.origins[0], row_with(table)), row_with(table, **values), NONE, NONE)


def test_a_row_that_is_missing_is_written_whole() -> None:
    keyed = table(("id",))
    fix = fix_of(keyed, (keyed.origins[0], ROW), None, Counter([b"x"]), NONE)
    assert fix.deletions == ()
    assert fix.insertions == (
        b"INSERT INTO `t`.`orders` (`id`, `v``x`, `d`, `e`, `at`, `b`, `j`) VALUES (7, _latin1 0xe427, '0.1', 2,"
        b" '2024-01-02 03:04:05.600', 0x005c, '{\"a\": \"it''s\"}')",
    )


def test_a_row_on_both_sides_is_updated_in_the_columns_that_differ() -> None:
    assert changed(table(("id",)), d=b"0.2", b=None) == Fix(
        updates=(b"UPDATE `t`.`orders` SET `d` = '0.1', `b` = 0x005c WHERE `id` = 7",)
    )


def test_a_row_whose_columns_the_session_computes_gets_the_reason_instead_of_a_statement() -> None:
    zoned = replace(table(("id",)), zoned=True)
    missing = fix_of(zoned, (zoned.origins[0], ROW), None, Counter([b"x"]), NONE)
    for fix in (missing, changed(zoned, d=b"0.2")):
        assert fix.statements == ()
        assert "time zone of the session" in fix.impossible
    assert fix_of(zoned, None, ROW, NONE, Counter([b"x"])).deletions, "a DELETE computes nothing"


def test_columns_that_are_not_compared_keep_what_they_have() -> None:
    """An UPDATE by itself would set one of them to the time."""
    own = column("own", "int"), column("seen", "timestamp", extra="on update now()")
    update = b"UPDATE `t`.`orders` SET `d` = '0.1', `seen` = `seen` WHERE `id` = 7"
    unique = frozenset({"UNIQUE other (`d`)"})
    for some in (table(("id",), *own), table(("id",), *own, indexes=unique)):
        assert changed(some, d=b"0.2") == Fix(updates=(update,))
    left_out = table(("id",), ignored=frozenset({"b"}), indexes=unique)
    assert changed(left_out, d=b"0.2").updates == (b"UPDATE `t`.`orders` SET `d` = '0.1' WHERE `id` = 7",)


def test_a_row_with_ignored_columns_is_not_made_anew() -> None:
    left_out = table(("id",), ignored=frozenset({"b"}))
    missing = fix_of(left_out, (left_out.origins[0], row_with(left_out)), None, Counter([b"x"]), NONE)
    assert not missing.statements
    assert "can't be written whole" in missing.impossible
    extra = fix_of(left_out, None, row_with(left_out), NONE, Counter([b"x"]))
    assert extra.deletions == (b"DELETE FROM `t`.`orders` WHERE `id` = 7",)
    only_there = table(("id",), column("own", "int"), ignored=frozenset({"own"}))
    fix = fix_of(only_there, (only_there.origins[0], row_with(only_there)), None, Counter([b"x"]), NONE)
    assert fix.insertions[0].startswith(b"INSERT INTO")


@pytest.mark.parametrize(
    "some",
    [
        table((), ignored=frozenset({"b"})),
        table(("id",), ignored=frozenset({"id"})),
        table((), column("own", "int")),
        replace(table(()), filtered=True),
    ],
)
def test_rows_without_a_key_are_left_alone_where_they_are_not_known(some: ComparedTable) -> None:
    row = row_with(some)
    one = Counter([text_of(some.target.row, row)])
    for fix in (
        fix_of(some, (some.origins[0], row), None, one, NONE),
        fix_of(some, None, row, NONE, one),
    ):
        assert not fix.statements
        assert "without a key" in fix.impossible


def test_rows_with_unique_values_are_replaced_but_not_where_a_condition_hides_some() -> None:
    """Values that have changed places; after the condition, who holds one is not compared."""
    unique = table(("id",), indexes=frozenset({"UNIQUE PRIMARY (`id`)", "UNIQUE d (`d`)"}))
    (statement,) = changed(unique, d=b"0.2").statements
    assert statement.startswith(b"REPLACE INTO `t`.`orders` (`id`, ")
    filtered = replace(unique, filtered=True)
    assert changed(filtered, d=b"0.2").updates == (b"UPDATE `t`.`orders` SET `d` = '0.1' WHERE `id` = 7",)
    fix = fix_of(filtered, (filtered.origins[0], ROW), None, Counter([b"x"]), NONE)
    assert fix.insertions[0].startswith(b"INSERT INTO")


def test_a_document_of_the_same_value_is_made_another_one_first() -> None:
    typed = table(("id",), column("seen", "timestamp", extra="on update now()"), json_types=True)
    ours, theirs = row_with(typed, j=b'{"a": 1.0}'), row_with(typed, j=b'{"a": 1}')
    (update,) = fix_of(typed, (typed.origins[0], ours), theirs, NONE, NONE).updates
    assert update.split(b";\n") == [
        b"UPDATE `t`.`orders` SET `j` = JSON_ARRAY(`j`), `seen` = `seen` WHERE `id` = 7",
        b"UPDATE `t`.`orders` SET `j` = '{\"a\": 1.0}', `seen` = `seen` WHERE `id` = 7",
    ]
    computed = fix_of(typed, (typed.origins[0], ours), row_with(typed, j=b'{"a": 1}', g=b"9"), NONE, NONE)
    assert b"JSON_ARRAY(`j`)" in computed.updates[0]  # what the target computes of it differs as well
    other = row_with(typed, j=b'{"a": 2}')
    assert b";\n" not in fix_of(typed, (typed.origins[0], ours), other, NONE, NONE).updates[0]


def test_what_a_tidb_would_not_update_is_written_anew() -> None:
    tidb = table(("id",), tidb=True)
    fix = changed(tidb, e=b"0")
    assert fix.deletions == (b"DELETE FROM `t`.`orders` WHERE `id` = 7",)
    assert fix.insertions[0].startswith(b"INSERT INTO `t`.`orders` (`id`, ")
    assert "TiDB" in changed(table(("id",), column("own", "int"), tidb=True), e=b"0").impossible


def members(of: str, at_target: str, *, tidb: bool = False) -> ComparedTable:
    """A table with a column of members at both sides, and one that only the target has."""
    sides = [
        Structure((column("id", "int"), column("e", type_, "utf8mb4"), *more), ("id",), frozenset(), frozenset())
        for type_, more in ((of, ()), (at_target, (column("own", "int"),)))
    ]
    origins = [DiffSource(0, SOURCE, sides[0], "mysql", {})]
    flavor: Flavor = "tidb" if tidb else "mysql"
    return compared_table(TARGET, sides[1], flavor, origins, frozenset(), json_types=False)


def test_an_empty_member_is_no_document() -> None:
    """With other lists only whether it is a member differs: the name and the error value are both empty."""
    table = members("enum('','a')", "enum('','a','b')")
    fix = fix_of(table, (table.origins[0], (b"1", b"", b"1")), (b"1", b"", b"0"), NONE, NONE)
    assert fix.updates == (b"UPDATE `t`.`orders` SET `e` = '' WHERE `id` = 1",)


def test_a_tidb_updates_a_set_without_members() -> None:
    table = members("set('a','b')", "set('a','b')", tidb=True)
    fix = fix_of(table, (table.origins[0], (b"1", b"", b"0")), (b"1", b"a", b"1"), NONE, NONE)
    assert fix.updates == (b"UPDATE `t`.`orders` SET `e` = 0 WHERE `id` = 1",)


def test_a_key_that_is_compared_without_its_padding_is_found_by_the_same_comparison() -> None:
    def padded(ours: str, theirs: str, charset: str | None) -> ComparedTable:
        sides = [
            Structure((column("k", type_, charset), column("v", "int")), ("k",), frozenset(), frozenset())
            for type_ in (ours, theirs)
        ]
        return compared_table(
            TARGET, sides[1], "mysql", [DiffSource(0, SOURCE, sides[0], "mysql", {})], frozenset(), json_types=False
        )

    for ours, theirs, charset, condition in (
        ("binary(4)", "binary(8)", None, b"CAST(TRIM(TRAILING x'00' FROM `k`) AS BINARY) = 0x61"),
        ("char(5)", "varchar(5)", "utf8mb4",
         b"CAST(TRIM(TRAILING ' ' FROM CONVERT(`k` USING utf8mb4)) AS BINARY) = 'a'"),
        ("varchar(5)", "char(5)", "utf8mb4",
         b"`k` = 'a' AND CAST(TRIM(TRAILING ' ' FROM CONVERT(`k` USING utf8mb4)) AS BINARY) = 'a'"),
    ):  # fmt: skip
        table = padded(ours, theirs, charset)
        fix = fix_of(table, (table.origins[0], (b"a", b"1")), (b"a", b"2"), NONE, NONE)
        assert fix.updates == (b"UPDATE `t`.`orders` SET `v` = 1 WHERE " + condition,), (ours, theirs)


def test_a_column_that_the_target_computes_is_not_written() -> None:
    assert "computes by itself" in changed(table(("id",)), g=b"9").impossible


def test_values_are_freed_before_they_are_taken() -> None:
    fixes = [Fix(insertions=(b"3",)), Fix(updates=(b"2",)), Fix(deletions=(b"1",), insertions=(b"4",))]
    assert in_order(fixes) == (b"1", b"2", b"3", b"4")


def test_an_error_value_of_an_enum_is_written_in_a_lenient_session() -> None:
    keyed = table(("id",))
    row = tuple(b"0" if part.type is ENUM else value for part, value in zip(keyed.origins[0].row, ROW, strict=True))
    (insertion,) = fix_of(keyed, (keyed.origins[0], row), None, Counter([b"x"]), NONE).insertions
    assert insertion.startswith(b"INSERT /*+ SET_VAR(sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES') */ INTO `t`")


def test_for_a_tidb_the_session_is_lenient_for_one_statement() -> None:
    keyed = table(("id",), tidb=True)
    side = keyed.origins[0]
    row = tuple(b"0" if part.type is ENUM else b"7" for part in side.row)
    (insertion,) = fix_of(keyed, (side, row), None, Counter([b"x"]), NONE).insertions
    before, statement, after = insertion.split(b";\n")
    assert before.startswith(b"SET @dm_mode = @@SESSION.sql_mode, SESSION sql_mode = 'NO_AUTO_VALUE_ON_ZERO")
    assert statement.startswith(b"INSERT INTO `t`")
    assert after == b"SET SESSION sql_mode = @dm_mode"


def test_a_text_of_a_tidb_is_named_in_utf_8() -> None:
    row = tuple(
        "ä".encode() if part.label == "v`x" else value
        for part, value in zip(table(("v`x",), tidb=True).target.row, ROW, strict=True)
    )
    (deletion,) = fix_of(table(("v`x",), tidb=True), None, row, NONE, Counter([b"x"])).deletions
    assert deletion == "DELETE FROM `t`.`orders` WHERE `v``x` = 'ä' AND CONVERT(`v``x` USING binary) = 'ä'".encode()


def test_a_row_that_is_too_much_is_deleted_by_its_key() -> None:
    fix = fix_of(table(("id", "v`x")), None, ROW, NONE, Counter([b"x"]))
    assert fix == Fix(
        deletions=(
            b"DELETE FROM `t`.`orders` WHERE `id` = 7 AND `v``x` = _latin1 0xe427"
            b" AND CAST(`v``x` AS BINARY) = _latin1 0xe427",
        )
    )


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
    origin = DiffSource(0, SOURCE, ours, "mysql", {"src": "_utf8mb4 'é'"})
    found = compared_table(TARGET, theirs, "mysql", [origin], frozenset(), json_types=False)
    assert found.origins[0].row[1].text == text


def test_a_column_that_one_side_lacks_is_left_out_unless_its_value_is_known() -> None:
    ours = Structure(COLUMNS[:1], ("id",), frozenset(), frozenset())
    theirs = Structure((*COLUMNS[:1], column("src", "varchar(9)", "utf8mb4")), ("id",), frozenset(), frozenset())
    for constants, labels in (({}, ["id"]), ({"src": "_utf8mb4 'one'"}, ["id", "src"])):
        origin = DiffSource(0, SOURCE, ours, "mysql", constants)
        found = compared_table(TARGET, theirs, "mysql", [origin], frozenset(), json_types=False)
        assert [part.label for part in found.origins[0].row] == labels
    assert found.origins[0].row[1].read == "_utf8mb4 'one'"


def test_a_row_that_may_be_meant_to_stay_is_not_deleted() -> None:
    kept = replace(table(("id",)), kept="another task has rows there")
    assert fix_of(kept, None, ROW, NONE, Counter([b"x"])) == Fix(
        kept=(b"DELETE FROM `t`.`orders` WHERE `id` = 7",), why_kept="another task has rows there"
    )
    keyless = replace(table(()), kept="so it is")
    text = text_of(keyless.target.row, ROW)
    fix = fix_of(keyless, None, ROW, NONE, Counter({text: 2}))
    assert (fix.statements, len(fix.kept), fix.kept[0].endswith(b" LIMIT 2")) == ((), 1, True)
    fix = fix_of(keyless, (keyless.origins[0], ROW), None, Counter({text: 1}), NONE)
    assert (len(fix.insertions), fix.kept) == (1, ())


def test_nothing_is_replaced_where_rows_may_be_meant_to_stay() -> None:
    unique = table(("id",), indexes=frozenset({"UNIQUE PRIMARY (`id`)", "UNIQUE u (`d`)"}))
    assert changed(unique, d=b"0.2").insertions[0].startswith(b"REPLACE")
    fix = changed(replace(unique, kept="another task has rows there"), d=b"0.2")
    assert fix == Fix(updates=(b"UPDATE `t`.`orders` SET `d` = '0.1' WHERE `id` = 7",))
