"""What a person reads of a flashback."""

from typing import Any

from dm.cli.verbs.errands import flashback_lines

REPORT: dict[str, Any] = {
    "source": "a", "from": "(b.000001, 4)", "to": "(b.000002, 9)", "transactions": 2, "statements": 5,
    "tables": {"s.t": 3, "s.u": 2}, "ddl": [], "ddlNotShown": 0, "file": "/sql/flashback.a.sql",
}  # fmt: skip


def test_statements_by_table_and_what_is_not_taken_back() -> None:
    ddl = [{"place": "(b.000001, 7)", "statement": "ALTER TABLE t ADD INDEX (v)"}]
    assert flashback_lines({"report": [REPORT | {"ddl": ddl, "ddlNotShown": 4}]}) == [
        "a: 5 statements take back 2 transactions, from (b.000001, 4) to (b.000002, 9)",
        "  s.t: 3",
        "  s.u: 2",
        "  not taken back, at (b.000001, 7): ALTER TABLE t ADD INDEX (v)",
        "  not taken back: 4 more statements",
        "  file: /sql/flashback.a.sql",
    ]


def test_without_changes_there_is_no_file() -> None:
    assert flashback_lines({"report": [REPORT | {"file": "", "statements": 0}]}) == [
        "a: no row changes from (b.000001, 4) to (b.000002, 9)"
    ]
