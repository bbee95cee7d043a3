"""Events and rows are read and made by either twin: each test of this folder runs on both."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="module", autouse=True)
def _both_twins(twin: str) -> None:
    """Each test runs with the extension, and in Python alone."""
