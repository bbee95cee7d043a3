"""Each table is of main or of the share that is loaded beside it, never of both."""

from __future__ import annotations

import pytest

from dm.config.rules import BlockAllowList
from dm.config.subtask import Share, SubtaskConfig
from dm.ident import TableName
from dm.rules.table_rules import BesideShare, TableRules
from tests.unit.rules.subtasks import subtask

ORDERS, ITEMS, OTHER = (TableName("shop", name) for name in ("orders", "items", "other"))
SHARES = {
    "reload": Share(tables=(("shop", "orders"), ("shop", "items"))),
    "add": Share(older=BlockAllowList(do_dbs=("shop",), ignore_tables=())),
}


def of(*schemas: str) -> SubtaskConfig:
    """A task with these schemas."""
    return subtask("", "").model_copy(update={"block_allow_list": BlockAllowList(do_dbs=schemas)})


@pytest.mark.parametrize("table", [ORDERS, ITEMS, OTHER, TableName("new", "t"), TableName("new", "")])
@pytest.mark.parametrize("share", SHARES.values(), ids=list(SHARES))
def test_one_of_the_two_has_a_table(share: Share, table: TableName) -> None:
    config = of("shop", "new")
    main, beside = BesideShare(config, [share]), TableRules(config.model_copy(update={"share": share}))
    assert main.followed(table) != beside.followed(table)
    assert main.owned(table) != beside.wanted(table)
    assert main.wanted(table), "its reader keeps rows of XA transactions"
    assert main.in_another_stream(table) == beside.followed(table)
    assert beside.in_another_stream(table) == main.followed(table)


@pytest.mark.parametrize("share", SHARES.values(), ids=list(SHARES))
def test_a_table_that_is_not_the_tasks_is_in_no_stream_of_it(share: Share) -> None:
    config, table = of("shop", "new"), TableName("not_listed", "t")
    for rules in (
        TableRules(config),
        BesideShare(config, [share]),
        TableRules(config.model_copy(update={"share": share})),
    ):
        assert not rules.in_another_stream(table)


def test_a_shares_ghosts_are_not_mains() -> None:
    config, share = of("shop"), SHARES["reload"]
    main, beside = BesideShare(config, [share]), TableRules(config.model_copy(update={"share": share}))
    assert not main.followed(TableName("shop", "_orders_gho"))
    assert beside.followed(TableName("shop", "_orders_gho"))
    assert main.followed(TableName("shop", "_other_gho"))


def test_main_keeps_the_schemas_of_a_share() -> None:
    config = of("shop", "new")
    main = BesideShare(config, [SHARES["reload"]])
    assert main.keeps_schema("shop")
    assert not main.keeps_schema("new")
    assert not TableRules(config).keeps_schema("shop")
