"""What `-B`, `-T` and `-f` leave of the lists, in the words of dumpling's table filter."""

from __future__ import annotations

import pytest

from dm.ident import TableName
from dm.rules import TableRules
from tests.unit.config.texts import TASK, task

NAMES = ("shop.orders", "shop.Items", "shop.log_1", "bank.orders", "bank.accounts", "mysql.user", "shop.", "bank.")


def wanted(arguments: str, *, lists: str = "", more: str = "") -> set[str]:
    text = TASK.replace("task-mode: all", "task-mode: full") + f'    mydumper: {{extra-args: "{arguments}"}}\n'
    text += f"    block-allow-list: l\nblock-allow-list: {{l: {lists or '{}'}}}\n{more}"
    rules = TableRules(task(text).subtask("mysql-01"))
    return {name for name in NAMES if rules.wanted(TableName(*name.split(".")))}


@pytest.mark.parametrize(
    ("arguments", "left"),
    [
        ("", {"shop.orders", "shop.Items", "shop.log_1", "bank.orders", "bank.accounts", "shop.", "bank."}),
        ("-B shop", {"shop.orders", "shop.Items", "shop.log_1", "shop."}),
        (
            "-B shop -B bank -t 2",
            {"shop.orders", "shop.Items", "shop.log_1", "bank.orders", "bank.accounts", "shop.", "bank."},
        ),
        ("-T shop.orders,bank.orders", {"shop.orders", "bank.orders", "shop.", "bank."}),
        ("--tables-list=shop.items", {"shop.Items", "shop."}),
        ("-B bank -T shop.orders,bank.orders", {"bank.orders", "bank."}),
        ("-f '*.*' -f '!shop.log_*'", {"shop.orders", "shop.Items", "bank.orders", "bank.accounts", "shop.", "bank."}),
        ("-f shop.* -f !*.orders", {"shop.Items", "shop.log_1", "shop."}),
        ("-f !*.orders -f shop.*", {"shop.orders", "shop.Items", "shop.log_1", "shop."}),
        ("-f *.order?", {"shop.orders", "bank.orders", "shop.", "bank."}),
        ("-f *.* -f !shop.*", {"bank.orders", "bank.accounts", "bank."}),
        ("-f /^(shop|mysql)$/.*", {"shop.orders", "shop.Items", "shop.log_1", "shop."}),
        ("-f /op/.'/^(ITEMS|log_[0-9]+)$/'", {"shop.Items", "shop.log_1", "shop."}),
        ("-f `shop`.orders", {"shop.orders", "shop."}),
    ],
)
def test_a_dump_has_what_its_options_say(arguments: str, left: set[str]) -> None:
    assert wanted(arguments) == left


def test_chosen_tables_stand_in_place_of_the_lists_and_schemas_beside_them() -> None:
    lists = "{do-dbs: [bank], ignore-tables: [{db-name: bank, tbl-name: accounts}]}"
    assert wanted("-T shop.orders", lists=lists) == {"shop.orders", "shop."}
    assert wanted("-B shop,bank", lists=lists) == {"bank.orders", "bank."}


def test_names_are_exact_where_the_task_says_so() -> None:
    assert wanted("-T shop.items", more="case-sensitive: true\n") == {"shop."}
