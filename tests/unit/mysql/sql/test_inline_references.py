"""REFERENCES after a column is left out where the source has ignored it, and nowhere else."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.inline_references import without_ignored_references
from dm.mysql.sql.split import split

OLD = SourceContext("mysql", 80042, "d")


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("CREATE TABLE c (p INT REFERENCES p (id))", "CREATE TABLE c (p INT )"),
        (
            "CREATE TABLE c (p INT references `x`.`a)b` (id, `n,`) MATCH FULL ON DELETE SET NULL ON UPDATE CASCADE"
            " COMMENT 'REFERENCES p', q INT)",
            "CREATE TABLE c (p INT  COMMENT 'REFERENCES p', q INT)",
        ),
        ("CREATE TABLE c (p INT REFERENCES p ON DELETE NO ACTION NOT NULL)", "CREATE TABLE c (p INT  NOT NULL)"),
        (
            "ALTER TABLE c ADD p INT DEFAULT (1) REFERENCES p(id), ADD q INT",
            "ALTER TABLE c ADD p INT DEFAULT (1) , ADD q INT",
        ),
        ("ALTER TABLE c ADD (p INT REFERENCES p(id), q INT)", "ALTER TABLE c ADD (p INT , q INT)"),
        ("ALTER TABLE c MODIFY p INT REFERENCES a (x) ON UPDATE RESTRICT FIRST", "ALTER TABLE c MODIFY p INT  FIRST"),
        (
            "CREATE TABLE c (q INT REFERENCES a (x), FOREIGN KEY (q) REFERENCES p (id) ON DELETE CASCADE, r INT)",
            "CREATE TABLE c (q INT , FOREIGN KEY (q) REFERENCES p (id) ON DELETE CASCADE, r INT)",
        ),
        ("ALTER TABLE c ADD CONSTRAINT f FOREIGN KEY g (p) REFERENCES p (id)", None),
        ("CREATE TABLE `references` (`references` INT COMMENT 'x REFERENCES y')", None),
    ],
)
def test_what_an_older_source_ignored_is_left_out(statement: str, expected: str | None) -> None:
    cut = without_ignored_references(statement, OLD)
    assert cut == (expected or statement)
    assert split(cut, OLD)  # what is left is a statement


@pytest.mark.parametrize(
    ("flavor", "version", "kept"),
    [("mysql", 80042, False), ("mysql", 90000, True), ("mariadb", 100438, False), ("mariadb", 100500, True)],
)
def test_a_source_that_makes_the_key_keeps_it(flavor: Flavor, version: int, kept: bool) -> None:
    statement = "CREATE TABLE c (p INT REFERENCES p (id) ON DELETE CASCADE)"
    cut = without_ignored_references(statement, SourceContext(flavor, version, "d"))
    assert ("REFERENCES" in cut) is kept
