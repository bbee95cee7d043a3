"""Which statements at a source are on the progress of the opposite task."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from dm.mysql.sql.context import SourceContext
from dm.progress.opposite import Opposite
from dm.task.foreign_transactions import on_progress

LONG = "m" * 60


@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
@pytest.mark.parametrize("schema", ["", "dm_meta", "shop"])
@pytest.mark.parametrize(("text", "progress"), [
    ("CREATE DATABASE IF NOT EXISTS `dm_meta`", True),
    ("CREATE TABLE IF NOT EXISTS `dm_meta`.`back_syncer_worker` (id INT)", True),
    ("ALTER TABLE dm_meta . back_cut_over ADD COLUMN n INT, DROP COLUMN m", True),
    ("DROP TABLE `dm_meta`.`back_a`, `dm_meta`.`back_b`", True),
    ("DROP TEMPORARY TABLE IF EXISTS `dm_meta`.`rows`", True),
    ("CREATE TABLE `dm_meta_check_17`.`t` (id INT)", True),
    ("DROP DATABASE IF EXISTS `dm_meta_check_17`", True),
    ("DROP TABLE `dm_meta`.`back_a`, `shop`.`log`", False),
    ("RENAME TABLE `dm_meta`.`back_a` TO `shop`.`log`", False),
    ("ALTER TABLE `shop`.`log` RENAME TO `dm_meta`.`log`", False),
    ("ALTER TABLE `dm_metadata`.`log` ADD COLUMN n INT", False),
    ("CREATE DATABASE `dm_metadata`", False),
    ("CREATE DATABASE `dm_meta_checked`", False),
    ("CREATE DATABASE `dm_meta_check_1x`", False),
    ("ALTER TABLE shop.log /* `dm_meta`.x */ ADD COLUMN n INT", False),
    ("ALTER TABLE shop.log COMMENT 'as `dm_meta`'", False),
    ("DROP TABLE shop.log -- `dm_meta`", False),
    ("TRUNCATE shop.log", False),
    ("GRANT SELECT ON `dm_meta`.* TO a", False),
    ("CREATE VIEW shop.v AS SELECT * FROM `dm_meta`.x", False),
    ("NOTHING `dm_meta`", False),
])  # fmt: skip
def test_a_statement_is_on_the_progress_by_the_tables_it_is_about(
    text: str, progress: bool, schema: str, flavor: Flavor
) -> None:
    context = SourceContext(flavor, 80036 if flavor == "mysql" else 101100, schema)
    marks = Opposite("dm_meta", "back").tables(folded=False)
    assert on_progress(text, context, marks, "dm_meta") is progress


def test_an_unqualified_name_is_of_the_default_schema() -> None:
    marks = Opposite("dm_meta", "back").tables(folded=False)
    for schema, progress in (("dm_meta", True), ("shop", False), ("dm_metadata", False)):
        assert on_progress("DROP TABLE x", SourceContext("mysql", 80036, schema), marks, "dm_meta") is progress


@pytest.mark.parametrize("folded", [False, True])
def test_names_are_told_apart_as_the_server_does(folded: bool) -> None:
    marks = Opposite("DM_Meta", "back").tables(folded=folded)
    context = SourceContext("mysql", 80036, "", lower_case_names=folded)
    assert on_progress("DROP TABLE `DM_Meta`.x", context, marks, "DM_Meta")
    assert on_progress("DROP TABLE `dm_meta`.x", context, marks, "DM_Meta") is folded
    assert on_progress(f"CREATE DATABASE `{LONG[:37]}_check_5`", context, Opposite(LONG, "b").tables(folded=True), LONG)
