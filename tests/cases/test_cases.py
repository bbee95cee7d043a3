"""Every folder beside this file, on every flavour that its expect.yaml names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.cases import Case, Expectation
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.yaml"))
RUNS = [
    pytest.param(
        folder,
        servers,
        id=f"{folder.name}-{servers}",
        marks=[pytest.mark.chaos] if servers in expectation.chaos else [],
    )
    for folder in FOLDERS
    for expectation in [Expectation.read(folder / "expect.yaml")]
    for servers in expectation.flavors
]


@pytest.mark.parametrize(("folder", "servers"), RUNS)
def test_case(folder: Path, servers: str, park: ServerPark, tmp_path: Path) -> None:
    Case(folder, servers, park, tmp_path / "case").run()
