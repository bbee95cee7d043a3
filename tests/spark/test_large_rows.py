"""Rows far larger than any batch go through dump and load as they are."""

from __future__ import annotations

import pytest

from dm.mysql.dialect import Flavor
from tests.spark.conftest import LoadFactory
from tests.testbed.fixtures import ServerFactory

pytestmark = [pytest.mark.live, pytest.mark.spark, pytest.mark.chaos, pytest.mark.timeout(1800)]

MIB = 1 << 20


@pytest.mark.parametrize("local_infile", [False, True])
def test_rows_of_64_mib(flavor: Flavor, local_infile: bool, server: ServerFactory, full_load: LoadFactory) -> None:
    upstream = server(flavor, max_allowed_packet=1 << 30)
    target = server(flavor, max_allowed_packet=1 << 30, local_infile=local_infile)
    load = full_load(
        upstream,
        target,
        "CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB, t LONGTEXT)",
        # Each of its bytes needs an escape, in both ways of writing.
        f"INSERT INTO large VALUES (1, REPEAT('\\\\', {64 * MIB}), 'before'), (2, 'x', REPEAT('y\\n', {MIB}))",
        f"INSERT INTO large SELECT 3, RIGHT(b, {20 * MIB}), 'after' FROM large WHERE id = 1",
    )
    load.dump()
    load.load()
    report = load.report()
    assert report.identical, str(report)
