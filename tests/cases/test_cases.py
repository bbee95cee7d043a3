"""Every folder beside this file, on every flavour that its expect.yaml names.

Each case runs once with the compiled parts off: on one of its flavours instead of with them, the next case on the next
one; on its only one it runs both ways, with them in the long runs, since all other tests of whole tasks have them.
Those with a TiDB as target are marked `tidb`; `make test-tidb` runs all of them, also those of long runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from dm.accelerator import switch
from tests.testbed.cases import Case, Expectation
from tests.testbed.park import ServerPark

pytestmark = [pytest.mark.live, pytest.mark.cases]

FOLDERS = sorted(path.parent for path in Path(__file__).parent.glob("*/expect.yaml"))


def runs() -> Iterator[ParameterSet]:
    """Folder, servers, and whether the compiled parts are on or off."""
    for number, folder in enumerate(FOLDERS):
        expectation = Expectation.read(folder / "expect.yaml")
        usual = [servers for servers in expectation.flavors if servers not in expectation.chaos] or expectation.flavors
        for source in expectation.tidb:
            servers = f"{source}->tidb"
            marks = [pytest.mark.tidb, *([pytest.mark.chaos] if servers in expectation.chaos else [])]
            yield pytest.param(folder, servers, "on", id=f"{folder.name}-{servers}", marks=marks)
        if not usual:
            continue
        without = usual[number % len(usual)]
        for servers in expectation.flavors:
            marks = [pytest.mark.chaos] if servers in expectation.chaos else []
            if servers == without:
                yield pytest.param(folder, servers, "off", id=f"{folder.name}-{servers}-off", marks=marks)
                marks = [pytest.mark.chaos]
            if servers != without or len(usual) == 1:
                yield pytest.param(folder, servers, "on", id=f"{folder.name}-{servers}", marks=marks)


@pytest.mark.parametrize(("folder", "servers", "accelerator"), list(runs()))
def test_case(folder: Path, servers: str, accelerator: str, park: ServerPark, tmp_path: Path) -> None:
    Case(folder, servers, park, tmp_path / "case", {switch.VARIABLE: accelerator}).run()
