"""What a restart concludes of a piece of DDL from the structure that it finds."""

from __future__ import annotations

from dataclasses import replace

from dm.ident import TableName
from dm.mysql.schema.table import Column, Index, IndexPart, TableSchema
from dm.position import Position
from dm.progress.intent import Intent, PieceOutcome

TABLE = TableName("s", "t")
BEFORE = TableSchema(TABLE, (Column("a", "int"),), (Index("a", "index", (IndexPart("a"),)),))
# ADD COLUMN d DATETIME(2) DEFAULT '2024-02-31 23:59:59.999999', which the server rounds to the next day.
AFTER = replace(
    BEFORE, columns=(*BEFORE.columns, Column("d", "datetime", decimals=2, default="'2024-02-31 23:59:59.999999'"))
)
ROUNDED = replace(
    BEFORE, columns=(*BEFORE.columns, Column("d", "datetime", decimals=2, default="'2024-03-03 00:00:00.00'"))
)


def outcome(before: TableSchema | None, after: TableSchema | None, now: TableSchema | None) -> PieceOutcome:
    return Intent(Position("", "", 4), 0, "", 1, {TABLE: before}, {TABLE: after}).outcome({TABLE: now})


def test_a_structure_as_before_or_as_expected_decides() -> None:
    assert outcome(BEFORE, AFTER, AFTER) is PieceOutcome.DONE
    assert outcome(BEFORE, AFTER, BEFORE) is PieceOutcome.NOT_DONE
    assert outcome(None, AFTER, None) is PieceOutcome.NOT_DONE


def test_a_default_that_the_server_rounds_leaves_no_doubt() -> None:
    assert outcome(BEFORE, AFTER, ROUNDED) is PieceOutcome.DONE
    assert outcome(None, AFTER, ROUNDED) is PieceOutcome.DONE
    assert outcome(ROUNDED, BEFORE, AFTER) is PieceOutcome.NOT_DONE


def test_a_third_structure_is_somebody_elses() -> None:
    third = replace(AFTER, columns=(*AFTER.columns, Column("x", "int")))
    assert outcome(BEFORE, AFTER, third) is PieceOutcome.UNCLEAR
    assert outcome(BEFORE, AFTER, None) is PieceOutcome.UNCLEAR
    assert outcome(None, AFTER, BEFORE) is PieceOutcome.UNCLEAR


def test_where_only_a_default_changes_only_the_default_can_tell() -> None:
    other = replace(ROUNDED, columns=(BEFORE.columns[0], replace(ROUNDED.columns[1], default="'2030-01-01'")))
    assert outcome(other, AFTER, ROUNDED) is PieceOutcome.UNCLEAR


def test_a_document_that_became_a_text_at_a_mariadb_is_done() -> None:
    document = replace(BEFORE, columns=(*BEFORE.columns, Column("j", "json")))
    text = replace(BEFORE, columns=(*BEFORE.columns, Column("j", "longtext", charset="utf8mb4")))
    assert outcome(None, document, text) is PieceOutcome.DONE
    assert outcome(BEFORE, document, text) is PieceOutcome.DONE
    assert outcome(document, text, replace(text, indexes=())) is PieceOutcome.UNCLEAR
