"""Every folder beside this file, on every flavour that its expect.yaml names."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.testbed.cases import Case, Expectation
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.yaml"))
RUNS = [
    pytest.param(folder, servers, id=f"{folder.name}-{servers}")
    for folder in FOLDERS
    for servers in Expectation.read(folder / "expect.yaml").flavors
]


@pytest.mark.parametrize(("folder", "servers"), RUNS)
def test_case(folder: Path, servers: str, park: ServerPark, tmp_path: Path) -> None:
    Case(folder, servers, park, tmp_path / "case").run()
