"""The extension, which is there wherever it can be built."""

from __future__ import annotations

from types import ModuleType
from typing import cast

import pytest

from dm.accelerator.native import hand_over
from tests.testbed.decoders import compiled


@pytest.fixture(scope="session")
def native() -> ModuleType:
    """The extension; test_building proves that it is missing only where it can't be built."""
    found = compiled()
    if found is None:
        pytest.skip("the extension is not built: no C compiler, or no headers of Python")
    hand_over(found)
    return cast("ModuleType", found)
