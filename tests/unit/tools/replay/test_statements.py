"""Which statements end a replay: what the syncer might follow, and nothing that it passes over."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList
from dm.ident import TableName
from dm.mysql.binlog.query import Query, QuerySession
from dm.mysql.sql.context import SourceContext
from dm.rules.block_allow import TableSelection
from dm.tools.replay.decoding import concerns, shown

CONTEXT = SourceContext("mysql", 90704, "beats")


class Shop:
    """A task that wants one schema."""

    def __init__(self) -> None:
        self._lists = TableSelection(BlockAllowList.model_validate({"do-dbs": ["shop"]}), case_sensitive=True)

    def wanted(self, table: TableName) -> bool:
        return self._lists.wanted(table)

    followed = wanted


def concerned(text: str, session: QuerySession | None = None) -> bool:
    query = Query("beats", text.encode(), session or QuerySession(), 0, 0, 0, 0)
    return concerns(query, CONTEXT, Shop(), {TableName("beats", "view")}.__contains__)


@pytest.mark.parametrize(
    "text",
    [
        "REPLACE INTO heartbeat VALUES (1)",
        "CREATE TABLE others (id INT)",
        "DROP DATABASE beats",
        "GRANT SELECT ON shop.items TO dm",
        "FLUSH PRIVILEGES",
        "ALTER TABLE others XYZ",
    ],
)
def test_what_is_about_others_is_passed_over(text: str) -> None:
    assert not concerned(text)


@pytest.mark.parametrize(
    "text",
    [
        "UPDATE shop.items SET v = 1",
        "UPDATE view SET v = 1",
        "DROP DATABASE shop",
        "ALTER TABLE shop.items ADD COLUMN w INT",
        "RENAME TABLE others TO shop.others",
        "CREATE TABLE others LIKE shop.items",
        "TRUNCATE shop.items",
        "ALTER TABLE shop.items XYZ",
        "XYZ",
    ],
)
def test_what_may_be_about_the_tasks_tables_ends_it(text: str) -> None:
    assert concerned(text)


def test_rows_that_a_text_changes_by_a_trigger() -> None:
    text = "INSERT INTO others VALUES (1)"
    assert concerned(text, QuerySession(updated_schemas=("beats", "shop")))
    assert concerned(text, QuerySession(schemas_unlisted=True))
    assert not concerned(text, QuerySession(updated_schemas=("beats",)))


def test_a_statement_is_shown_in_one_line() -> None:
    assert shown(Query("", b"DROP\n  TABLE t", QuerySession(), 0, 0, 0, 0)) == "DROP TABLE t"
    assert len(shown(Query("", b"x" * 1000, QuerySession(), 0, 0, 0, 0))) < 300
