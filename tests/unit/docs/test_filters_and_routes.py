"""Every example of the page on filters and routes loads, and does what the page says of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML

from dm.config import read_source, read_task
from dm.config.rules import EVENT_NAMES
from dm.errors.catalogue import CATALOGUE
from dm.ident import TableName
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext
from dm.rules import TableRules
from tests.unit.docs.document import ROOT, blocks, section

PAGE = (ROOT / "docs" / "filters-and-routes.md").read_text(encoding="utf-8")
SECTIONS = {"filters": "filter-rules", "routes": "route-rules", "expression-filter": "expression-filters"}
BASE: dict[str, Any] = {"name": "shop", "task-mode": "all", "target-database": {"host": "target"}}


def examples() -> Iterator[tuple[str, dict[str, Any]]]:
    for part in PAGE.split("\n## ")[1:]:
        for number, block in enumerate(block for block in blocks(part) if block.language == "yaml"):
            yield f"{part.splitlines()[0]} {number + 1}", YAML(typ="safe").load(block.text)


def rules_of(content: dict[str, Any]) -> TableRules:
    """The rules of a task file with an example's sections, all of them named by its one instance."""
    instance: dict[str, Any] = {"source-id": "mysql-01"}
    instance |= {key: list(content[name]) for name, key in SECTIONS.items() if name in content}
    if "block-allow-list" in content:
        (instance["block-allow-list"],) = content["block-allow-list"]
    sources = {"mysql-01": read_source("source-id: mysql-01\nfrom: {host: db1}\n")}
    return TableRules(
        read_task(json.dumps(BASE | {"mysql-instances": [instance]} | content), sources).subtask("mysql-01")
    )


def example(title: str) -> dict[str, Any]:
    return dict(examples())[title]


@pytest.mark.parametrize("content", [pytest.param(content, id=title) for title, content in examples()])
def test_every_example_loads(content: dict[str, Any]) -> None:
    rules_of(content)


def test_the_page_has_an_example_of_every_kind() -> None:
    found = {key for _, content in examples() for key in content}
    assert found >= {*SECTIONS, "block-allow-list"}


def test_tables_are_chosen_as_it_says() -> None:
    rules = rules_of(example("Choose schemas and tables 1"))
    assert [rules.wanted(TableName("shop", name)) for name in ("orders", "orders_tmp", "items")] == [True, True, False]


def test_routes_lead_where_it_says() -> None:
    rules = rules_of(example("Send tables elsewhere 1"))
    assert rules.route(TableName("shop_1", "orders_7")) == TableName("shop", "orders")
    assert rules.route(TableName("shop_1", "items")) == TableName("shop", "items")
    assert rules.route(TableName("shop_1", "")) == TableName("shop", "")


def test_names_are_extracted_as_it_says() -> None:
    rules = rules_of(example("Keep the shard's name in a column 1"))
    columns = {each.column: each.value for each in rules.extracted(TableName("shop_eu", "orders_7"))}
    assert columns == {"shard": "7", "region": "eu", "origin": "mysql-01"}
    (sql,) = (block.text for block in blocks(PAGE) if block.language == "sql")
    structure = parse_create_table(sql.strip().removesuffix(";"), SourceContext("mysql", 80400, "shop"))
    assert {column.name for column in structure.columns} >= columns.keys()
    assert structure.unique_indexes[0].columns == ("id", *columns)


def test_rows_are_left_out_as_it_says() -> None:
    structure = parse_create_table(
        "CREATE TABLE shop.orders (id INT, buyer VARCHAR(20) COLLATE utf8mb4_bin, total DECIMAL(9,2), year INT,"
        " state ENUM('open','closed') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, changed TIMESTAMP NULL)"
        " CHARACTER SET utf8mb4",
        SourceContext("mysql", 80400, "shop"),
    )
    judge = rules_of(example("Leave rows out 1")).row_filter(structure)
    assert judge is not None
    new = (1, b"test-1", "9.00", 2024, 1, None)
    ada = (*new[:1], b"Ada", *new[2:])
    assert judge.skipped("insert", [(None, new), (None, ada)], 0) == [True, False]
    closed = (1, b"Ada", "9.00", 2019, 2, "2023-12-31 22:59:59")
    at_midnight = (*closed[:5], "2023-12-31 23:00:00")  # in Berlin
    opened = (*closed[:4], 1, None)
    assert judge.skipped("update", [(closed, opened), (at_midnight, opened)], 0) == [True, False]
    assert judge.skipped("delete", [(closed, None), (new, None)], 0) == [True, False]


def test_the_events_and_errors_it_names_exist() -> None:
    table = section(PAGE, "Leave events out")
    named = {word for row in table.splitlines() if row.startswith("| `") for word in row.split("|")[1].split("`")[1::2]}
    assert named - EVENT_NAMES == {"drop", "truncate", "reorganize", "rebuild", "coalesce"}  # .. table partition
    codes = {kind.code for kind in CATALOGUE.values()}
    assert codes >= {40080, 20923, 20924, 20925, 20926, 20927, 20928, 20929, 36067}
