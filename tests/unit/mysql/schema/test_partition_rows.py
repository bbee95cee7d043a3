"""Whether a partition's name means the same rows in two tables: a proof, or a reason."""

from __future__ import annotations

import pytest

from dm.mysql.schema.charset import Collated
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.partition import losing_rows
from dm.mysql.schema.partition_rows import differing_rows, other_values
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.mysql.schema.tracker import SchemaState, interpret
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece

CONTEXT = SourceContext("mysql", 90700, "d")
DAYS = {"to_days ( '2026-01-01' )": 739_982, "to_days ( '2026-02-01' )": 740_013, "2 * 5": 10}
SECONDS = {
    "TO_SECONDS('2026-01-01')": 63_934_444_800, "TO_SECONDS('2026-01-01 00:00:00')": 63_934_444_800,
    "TO_SECONDS('2026-02-01')": 63_937_123_200,
}  # fmt: skip


def table(partitioning: str) -> TableSchema:
    text = f"CREATE TABLE t (id INT, c VARCHAR(10), d DATE) {partitioning}"
    return schema_from_json(schema_to_json(parse_create_table(text, CONTEXT)))


def altered(schema: TableSchema, text: str) -> TableSchema:
    piece = Piece.of(f"ALTER TABLE t {text}", CONTEXT)
    return interpret(piece, SchemaState({schema.name: schema}.get, lambda _: Collated("", "")))[schema.name] or schema


def why(own: TableSchema, target: TableSchema, *names: str) -> str:
    return differing_rows(own, target, names, DAYS.get)


RANGE = "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20))"
LIST = "PARTITION BY LIST (id) (PARTITION p0 VALUES IN (1, 2), PARTITION p1 VALUES IN (3, 4))"


@pytest.mark.parametrize(
    ("own", "target"),
    [
        (RANGE, "/*!50100 PARTITION BY RANGE (`id`)\n(PARTITION P0 VALUES LESS THAN (10) ENGINE = InnoDB,\n PARTITION"
         " P1 VALUES LESS THAN (20) COMMENT = 'a') */"),
        (RANGE, RANGE.replace("))", "), PARTITION p2 VALUES LESS THAN MAXVALUE)")),
        (RANGE, "PARTITION BY RANGE ((ID)) PARTITIONS 2 (PARTITION p0 VALUES LESS THAN (2*5), PARTITION p1 VALUES LESS"
         " THAN (20))"),
        (LIST, LIST.replace("(1, 2)", "(2,1)")),
        (LIST, LIST.replace("))", "), PARTITION p2 VALUES IN (5))")),
        ("PARTITION BY LIST COLUMNS (c) (PARTITION p0 VALUES IN ('a''b\\\\', NULL))",
         "PARTITION BY LIST  COLUMNS(`c`) (PARTITION p0 VALUES IN (_utf8mb4'a\\'b\\\\',NULL))"),
        ("PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p0 VALUES LESS THAN (TO_DAYS('2026-01-01')))",
         "PARTITION BY RANGE (to_days(`d`)) (PARTITION p0 VALUES LESS THAN (739982))"),
        ("PARTITION BY RANGE COLUMNS (c, id) (PARTITION p0 VALUES LESS THAN ('x', MAXVALUE))",
         "PARTITION BY RANGE  COLUMNS(`c`,`id`) (PARTITION `p0` VALUES LESS THAN ('x',MAXVALUE))"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "PARTITION BY HASH (`id`)\nPARTITIONS 4"),
        ("PARTITION BY RANGE (id) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p0 VALUES LESS THAN (5))",
         "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5))"),
    ],
)  # fmt: skip
def test_the_same_rows_however_they_are_written(own: str, target: str) -> None:
    assert why(table(own), table(target), "p0") == ""
    assert why(table(target), table(own), "p0") == ""


@pytest.mark.parametrize(
    ("own", "target"),
    [
        (RANGE, RANGE.replace("20", "21")),
        (RANGE, RANGE.replace("10", "11")),  # where p1 begins
        (RANGE, "PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (20))"),
        (RANGE, RANGE.replace("(id)", "COLUMNS (id)")),
        (RANGE, RANGE.replace("(id)", "(id + 1)")),
        (RANGE, LIST),
        (RANGE, "PARTITION BY HASH (id) PARTITIONS 2"),
        (LIST, LIST.replace("(3, 4)", "(3)")),
        (LIST, LIST.replace("(3, 4)", "(3, 5)")),
        ("PARTITION BY LIST (id) (PARTITION p1 DEFAULT)",
         "PARTITION BY LIST (id) (PARTITION p1 DEFAULT, PARTITION p0 VALUES IN (1))"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "PARTITION BY HASH (id) PARTITIONS 5"),
        ("PARTITION BY HASH (id) PARTITIONS 4", "PARTITION BY LINEAR HASH (id) PARTITIONS 4"),
        ("PARTITION BY HASH (id) (PARTITION p0, PARTITION p1)", "PARTITION BY HASH (id) (PARTITION p1, PARTITION p0)"),
        ("PARTITION BY LIST COLUMNS (c) (PARTITION p1 VALUES IN ('a'))",
         "PARTITION BY LIST COLUMNS (c) (PARTITION p1 VALUES IN ('A'))"),
        ("PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p1 VALUES LESS THAN (TO_DAYS('2026-02-01')))",
         "PARTITION BY RANGE (TO_DAYS(d)) (PARTITION p1 VALUES LESS THAN (739982))"),
        ("PARTITION BY RANGE (UNIX_TIMESTAMP(d)) (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2026-02-01')))",
         "PARTITION BY RANGE (UNIX_TIMESTAMP(d)) (PARTITION p1 VALUES LESS THAN (739982))"),
        ("", RANGE),
    ],
)  # fmt: skip
def test_what_is_not_surely_the_same_has_a_reason(own: str, target: str) -> None:
    assert why(table(own), table(target), "p1")
    assert own == "" or why(table(target), table(own), "p1")


DATES = (
    "PARTITION BY RANGE COLUMNS (d) (PARTITION p0 VALUES LESS THAN ('2026-01-01'),"
    " PARTITION p1 VALUES LESS THAN (MAXVALUE))"
)
TEXTS = "PARTITION BY LIST COLUMNS (c) (PARTITION p0 VALUES IN ('x'), PARTITION p1 VALUES IN ('a', NULL))"
STAMPS = "PARTITION BY RANGE (UNIX_TIMESTAMP(d)) (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2026-02-01')))"


@pytest.mark.parametrize(
    ("own", "target", "surely"),
    [
        (RANGE, RANGE, False),
        (RANGE, RANGE.replace("20", "21"), True),
        (RANGE, RANGE.replace("10", "11"), True),  # where p1 begins
        (RANGE, RANGE.replace("20", "MAXVALUE"), True),
        (LIST, LIST.replace("3, 4", "4, 3"), False),
        (LIST, LIST.replace("3, 4", "3"), True),
        (DATES, DATES.replace("2026-01-01", "2026-01-01 00:00:00"), False),  # as a server prints it
        (DATES, DATES.replace("2026-01-01", "2026-02-01"), True),
        (TEXTS, TEXTS.replace("'a'", "'b'"), True),
        (TEXTS, TEXTS.replace("'a'", "0x61"), False),  # which is told by no text
        (STAMPS, STAMPS.replace("UNIX_TIMESTAMP('2026-02-01')", "1769904000"), False),
        ("", RANGE, False),
    ],
)
def test_a_table_of_its_own_is_refused_for_what_is_surely_other(own: str, target: str, surely: bool) -> None:
    for one, other in ((own, target), (target, own)):
        assert bool(other_values(table(one), table(other), ["p1"], SECONDS.get)) is surely


def test_a_partition_that_the_target_lacks_is_its_servers_matter() -> None:
    assert why(table(RANGE), table(LIST), "p9") == ""
    assert why(table(RANGE), table(""), "p0") == ""


def test_values_follow_the_statements() -> None:
    schema = altered(table(RANGE), "ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))")
    split = "REORGANIZE PARTITION p1 INTO (PARTITION p1 VALUES LESS THAN (15), PARTITION p1b VALUES LESS THAN (20))"
    schema = altered(altered(schema, split), "DROP PARTITION p0")
    assert why(schema, table("PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (15))"), "p1") == ""
    assert schema.placing == (("range (id)",), ("<", "15"), ("<", "20"), ("<", "30"))
    assert altered(schema, "REMOVE PARTITIONING").placing == ()
    hashed = altered(schema, "PARTITION BY KEY (id) PARTITIONS 2")
    assert altered(altered(hashed, "ADD PARTITION PARTITIONS 3"), "COALESCE PARTITION 1").placing == (
        ("key (id)",), (), (), (), (),
    )  # fmt: skip


def test_a_structure_of_an_earlier_version_proves_nothing() -> None:
    old = schema_from_json(schema_to_json(table(RANGE)).replace('"placing"', '"other"'))
    assert old.partitions == ("p0", "p1")
    assert why(old, table(RANGE), "p0")
    assert altered(old, "ADD PARTITION (PARTITION p2 VALUES LESS THAN (30))").placing == ()


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("ALTER TABLE t DROP PARTITION p0, `p1`", ("p0", "p1")),
        ("ALTER TABLE t drop partition if exists p0", ("p0",)),
        ("ALTER TABLE t ALGORITHM = INPLACE, TRUNCATE PARTITION p0", ("p0",)),
        ("ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u WITHOUT VALIDATION", ("p0",)),
        ("ALTER TABLE t DISCARD PARTITION p0, p1 TABLESPACE", ("p0", "p1")),
        ("ALTER TABLE t TRUNCATE PARTITION ALL", ()),
        ("ALTER TABLE t REBUILD PARTITION p0", ()),
        ("ALTER TABLE t DROP COLUMN c", ()),
        ("DROP TABLE t", ()),
    ],
)
def test_the_partitions_whose_rows_go(text: str, names: tuple[str, ...]) -> None:
    assert losing_rows(Piece.of(text, CONTEXT)) == names
