"""What logs and support bundles say of an error holds names and places, and no value of a row."""

from __future__ import annotations

import re
from string import Formatter

import pymysql
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dm.downstream.failure import failure
from dm.errors import CATALOGUE, DMError
from dm.errors.without_values import (
    message_without_values,
    report_without_values,
    structure_without_values,
    told,
    traced,
    without_literals,
    words_without_values,
)
from tests.unit.docs.document import ROOT

CANARY = "kanarie-Ω-金糸雀"
_NOISE = st.text(alphabet="a'\"`\\\n,()=?0Ω金 ", max_size=12)
_VALUE = st.tuples(_NOISE, _NOISE).map(CANARY.join)

# How servers speak of a value (MySQL 8.0, MariaDB 10.11, TiDB); {} is the value.
WORDS = (
    "1062 Duplicate entry '{}' for key 't.PRIMARY'",
    "1062: Duplicate entry '{}' for key 'PRIMARY'",
    "1366 Incorrect integer value: '{}' for column 'c' at row 1",
    "1366 Incorrect integer value: '{}' for column `d`.`t`.`c` at row 1",
    "1292 Truncated incorrect DOUBLE value: '{}'",
    "1411 Incorrect datetime value: '{}' for function str_to_date",
    "1526 Table has no partition for value {}",
    "1690 BIGINT UNSIGNED value is out of range in '({} - 1)'",
    "1064 You have an error in your SQL syntax; check the manual near '{}' at line 1",
    "8141 assertion failed: key: '{}'",
    'ValueError: invalid literal for int() with base 10: "{}"',
)


@given(words=st.sampled_from(WORDS), value=_VALUE, cut=st.integers(0, 30))
def test_no_value_in_the_words_of_a_server(words: str, value: str, cut: int) -> None:
    said = words.format(value)
    assert CANARY not in words_without_values(said)
    assert CANARY[:4] not in words_without_values(said[: len(said) - cut])


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("1062 Duplicate entry 'x' for key 't.PRIMARY'", "1062 Duplicate entry '?' for key 't.PRIMARY'"),
        ("1146 Table 'd.t' doesn't exist", "1146 Table 'd.t' doesn't exist"),
        ("1406 Data too long for column 'c' at row 1", "1406 Data too long for column 'c' at row 1"),
        ("1366 Incorrect integer value: 'x' for column 'c' at row 1",
         "1366 Incorrect integer value: '?' for column 'c' at row 1"),
        ("1452 a foreign key constraint fails (`d`.`t`, CONSTRAINT `f`)",
         "1452 a foreign key constraint fails (`d`.`t`, CONSTRAINT `f`)"),
        ("2013 Lost connection to server during query", "2013 Lost connection to server during query"),
    ],
)  # fmt: skip
def test_names_stay(words: str, left: str) -> None:
    assert words_without_values(words) == left


@given(value=_VALUE)
def test_a_statement_without_its_literals(value: str) -> None:
    literal = "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"
    statement = f"ALTER TABLE `t'1` ADD c VARCHAR(20) DEFAULT {literal} COMMENT {literal}, ADD d INT DEFAULT 4711"
    assert without_literals(statement) == "ALTER TABLE `t'1` ADD c VARCHAR(?) DEFAULT ? COMMENT ?, ADD d INT DEFAULT ?"


@given(st.from_regex(r"[a-z][a-z0-9_]{0,12}", fullmatch=True))
@example("t_e4c0bd14")  # which holds what reads like an introducer and a bit literal
@example("x0b1")
def test_a_name_stays_whatever_digits_it_has(name: str) -> None:
    statement = f"INSERT INTO {name}.t ({name}, v) VALUES ({{}}, {{}}, {{}}, {{}}, {{}})"
    assert without_literals(statement.format("1", "'a'", "0xE9", "_latin1 0xE9", "_utf8mb4'b'")) == statement.format(
        *5 * "?"
    )


def test_a_structure_keeps_names_types_and_options() -> None:
    text = (
        "CREATE TABLE `t` (\n  `a` int(11) NOT NULL DEFAULT 4711 COMMENT 'x',\n  `e` enum('x','it''s') DEFAULT 'x',\n"
        "  `d` decimal(10,2) DEFAULT -1.5,\n  `m` datetime(6) DEFAULT current_timestamp(6),\n"
        "  `g` varchar(20) GENERATED ALWAYS AS (concat(`a`,_utf8mb4'x\\'')) VIRTUAL,\n  KEY `k` (`g`(10)),\n"
        "  CONSTRAINT `c` CHECK (`a` <> 4712)\n"
        ") ENGINE=InnoDB AUTO_INCREMENT=4713 DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 COMMENT='x'\n"
        "/*!50100 PARTITION BY RANGE (`a`)\n(PARTITION p0 VALUES LESS THAN (4714) ENGINE = InnoDB) */"
    )
    assert structure_without_values(text) == (
        "CREATE TABLE `t` (\n  `a` int(11) NOT NULL DEFAULT ? COMMENT ?,\n  `e` enum(?,?) DEFAULT ?,\n"
        "  `d` decimal(10,2) DEFAULT ?,\n  `m` datetime(6) DEFAULT current_timestamp(6),\n"
        "  `g` varchar(20) GENERATED ALWAYS AS (concat(`a`,?)) VIRTUAL,\n  KEY `k` (`g`(10)),\n"
        "  CONSTRAINT `c` CHECK (`a` <> ?)\n"
        ") ENGINE=InnoDB AUTO_INCREMENT=? DEFAULT CHARSET=utf8mb4 KEY_BLOCK_SIZE=8 COMMENT=?\n"
        "/*!50100 PARTITION BY RANGE (`a`)\n(PARTITION p0 VALUES LESS THAN (?) ENGINE = InnoDB) */"
    )


def test_a_place_in_the_binlog_stays() -> None:
    assert without_literals("at (mysql-bin.000011, 154) of 12345678.123456") == "at (mysql-bin.000011, 154) of ?"


_OF_A_ROW = re.compile(r"key|row|rows|stored|found|before|after|label|value")
_NO_VALUES = {  # details that are called like one
    ("source-changed-without-gtid", "before"), ("binlog-renamed", "before"), ("binlog-renamed-without-gtid", "before"),
    ("source-switched", "before"), ("dump-rotation-refused", "before"), ("gtid-order-loose", "before"),
    ("dump-source-switched", "before"), ("feed-source-switched", "before"),
    ("load-route-changed", "before"), ("load-rows-differ", "rows"),
    ("cut-over-none", "found"), ("source-flavor", "found"), ("feed-ddl", "after"), ("flashback-ddl", "after"),
    ("stored-format-newer", "found"), ("conflicts-key-unclear", "key"),
}  # fmt: skip


def test_each_detail_that_sounds_like_a_value_is_declared_one_or_known_to_be_none() -> None:
    for name, kind in CATALOGUE.items():
        texts = kind.message + kind.workaround
        details = {re.split(r"[.\[]", field)[0] for _, field, _, _ in Formatter().parse(texts) if field}
        assert details >= {*kind.values}, name
        if kind.error_class == "config":
            continue
        for detail in details - {*kind.values}:
            assert not _OF_A_ROW.fullmatch(detail) or (name, detail) in _NO_VALUES, (name, detail)


def test_no_error_tells_the_details_that_are_values() -> None:
    found = [kind for kind in CATALOGUE.values() if kind.values]
    assert len(found) > 10
    for kind in found:
        fields = {field for _, field, _, _ in Formatter().parse(kind.message + kind.workaround) if field}
        error = DMError(kind.name, **{name: CANARY if name in kind.values else "here" for name in fields})
        assert CANARY in str(error)
        assert CANARY not in told(error)
        assert CANARY not in str(report_without_values(error.report()))
        outer = DMError("internal-error", what="it")
        outer.__cause__ = error
        assert CANARY not in told(outer)


@given(value=st.one_of(_VALUE, st.sampled_from([f"{CANARY} found no row at the target with {CANARY}"])))
def test_the_sentence_of_a_report_is_kept_up_to_the_first_value(value: str) -> None:
    missing = DMError("row-missing", operation="UPDATE", table="d.t", key=f"k = {value}", position="(b.000001, 4)")
    assert message_without_values(missing.report()) == "UPDATE on d.t found no row at the target with ?"
    differs = DMError("computed-value-differs", table="d.t", key=value, stored=value)
    said = "the target computes another value than the source has stored, in d.t for the row ?: ? at the source"
    assert message_without_values(differs.report()) == said
    assert message_without_values({"ErrCode": 1, "Message": value}) == ""
    paused = DMError("target-table-missing", table="d.t", unread="")
    assert message_without_values(paused.report()) == "the target has no table d.t"


@given(value=_VALUE)
def test_a_traceback_has_places_and_no_values(value: str) -> None:
    refused = pymysql.err.IntegrityError(1062, f"Duplicate entry '{value}' for key 'PRIMARY'")
    try:
        try:
            raise refused
        except pymysql.err.IntegrityError as error:
            raise failure(error, "target:4000", f"INSERT INTO t VALUES ('{CANARY}')".encode()) from error
    except DMError as error:
        shown = traced(error)
    assert CANARY not in shown
    assert shown.count("Traceback") == 2
    assert f'File "{__file__}"' in shown
    assert "duplicate-key" not in shown
    assert "for key 'PRIMARY'" in shown


def test_logs_are_given_errors_and_not_their_texts() -> None:
    spoiled = re.compile(r"\.(?:debug|info|warning|error|exception)\([^\n]*error=(?:str|repr|said)\(")
    found = [str(path) for path in (ROOT / "dm").rglob("*.py") if spoiled.search(path.read_text(encoding="utf-8"))]
    assert found == []
