"""The text of `table`: commands that it advises can be pasted into a shell."""

from __future__ import annotations

import shlex

import pytest

from dm.cli.verbs import tables
from dm.verbs.tables import table_of


@pytest.mark.parametrize(
    ("table", "argument"),
    [
        ("`shop`.`orders`", "shop.orders"), ("`my shop`.`orders`", "'my shop.orders'"),
        ("`a.b`.`c``d`", "'`a.b`.`c``d`'"), ("`$(reboot)`.`t`", "'$(reboot).t'"),
    ],
)  # fmt: skip
def test_a_command_that_is_shown_is_safe_in_a_shell(table: str, argument: str) -> None:
    assert tables._argument(table) == argument
    assert table_of(shlex.split(argument)[0]) == table_of(table)
