"""What a checksum that differs means where all rows are equal."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from dm.demo import compare
from dm.ident import TableName
from dm.mysql.equality.checksum import Checksum
from dm.mysql.equality.structure import ColumnFacts, Structure


class Rows:
    """A reader of one row."""

    def __init__(self, *_: object) -> None:
        self.names, self.key = ["v"], [0]

    def rows(self) -> list[compare.Values]:
        return [(b"1",)]

    def checksum(self, _: compare.Values) -> Checksum:
        return Checksum.of(b"1")


@pytest.mark.parametrize("generated", ["", "stored v + 1", "virtual v + 1"])
@pytest.mark.parametrize("flavor", ["mysql", "mariadb"])
def test_a_checksum_counts_but_beside_a_virtual_column(
    monkeypatch: pytest.MonkeyPatch, flavor: str, generated: str
) -> None:
    column = ColumnFacts("v", "int", True, None, None, None, "", generated, "")
    found = Structure((column,), ("v",), frozenset(), frozenset())
    monkeypatch.setattr(compare, "_structure", lambda *_: found)
    monkeypatch.setattr(compare, "_Reader", Rows)
    monkeypatch.setattr(compare, "_checksum", lambda connection, table: len(table.sql))
    server, table = cast(Any, SimpleNamespace(flavor=flavor, tidb=False)), TableName("s", "t")
    sessions = cast(Any, SimpleNamespace(plain=lambda server: None))
    pair = compare.TablePair(TableName("s", "target"), (compare.UpstreamTable(server, table),))
    report = compare._compare_pair(sessions, pair, server, {}, 10, True)
    assert report.source_rows == report.target_rows == 1
    assert report.identical == generated.startswith("virtual")
