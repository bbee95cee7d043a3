"""The extension, which is there wherever it can be built."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.testbed.decoders import compiled


@pytest.fixture(scope="session")
def native() -> ModuleType:
    """The extension; test_building proves that it is missing only where it can't be built."""
    found = compiled()
    if found is None:
        pytest.skip("the extension is not built: no C compiler, or no headers of Python")
    return found
