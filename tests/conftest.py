"""Set-up for the whole tree: the test bed's fixtures, and limits that no load of the machine makes fail."""

import gc
import os
import sys
from collections.abc import Iterator

import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import settings

from tests.testbed import figures, tidb

pytest_plugins = ["tests.testbed.fixtures"]

# Hypothesis fails an example that took longer than 200 ms; on a shared machine any does.
settings.register_profile("dm", deadline=None)
settings.load_profile("dm")

# httpx fails a request after five seconds; beside four other tests a daemon may not have had its turn by then.
DEFAULT_TIMEOUT_CONFIG.connect = DEFAULT_TIMEOUT_CONFIG.read = DEFAULT_TIMEOUT_CONFIG.write = 60.0

# Collecting makes more than a million objects that all live to the end. Looking for garbage among them again and again
# takes a quarter of the collection, in each of the processes, and each search of a test's own looks at them, too.
gc.disable()

FLAVORS = ("mysql", "mariadb")
CHAOS_SECONDS = 900  # a long test beside others that are long; the usual limit is for `make test`


def _beyond_samples(items: list[pytest.Item]) -> Iterator[pytest.Item]:
    """The cases that `ci_sample` leaves to `make chaos`: all but some, one of each stretch of them.

    Which one of a stretch differs from the next: at equal distances some value of a parameter might never come.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("ci_sample") is not None and item.get_closest_marker("chaos") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for all_of_one in cases.values():
        marker = all_of_one[0].get_closest_marker("ci_sample")
        assert marker is not None
        count = min(marker.args[0], len(all_of_one))
        sample = {number * len(all_of_one) // count + number % (len(all_of_one) // count) for number in range(count)}
        yield from (item for number, item in enumerate(all_of_one) if number not in sample)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests run on one flavour (`ci_flavor`), with some cases (`ci_sample`), or in `make chaos` alone (`chaos`).

    What runs in `make chaos` alone may take longer. Tests on TiDB run where TiDB is: it takes minutes to build, so
    `make install` does not.
    """
    not_built = None if tidb.binary().exists() else pytest.mark.skip(reason="TiDB is not here: make tidb builds it")
    for item in items:
        if not_built is not None and item.get_closest_marker("tidb") is not None:
            item.add_marker(not_built)
        marker = item.get_closest_marker("ci_flavor")
        if marker is not None and isinstance(item, pytest.Function) and hasattr(item, "callspec"):
            # Whatever the parameter's name: it may be that of what a fixture makes.
            flavors = [value for value in item.callspec.params.values() if value in FLAVORS]
            if len(flavors) == 1 and flavors[0] not in marker.args:
                item.add_marker(pytest.mark.chaos)
    for item in _beyond_samples(items):
        item.add_marker(pytest.mark.chaos)
    for item in items:
        if item.get_closest_marker("chaos") is not None and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(CHAOS_SECONDS))


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop() -> None:
    """From here on there is garbage; what the collection has made is none. xdist's own process comes here, too."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A part of `make chaos` takes an hour: what fails is told at once, not only in the end."""
    if report.failed and figures.DIRECTORY in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        sys.stderr.write(f"\nFAILED {report.nodeid}\n{report.longreprtext[-2000:]}\n")
