"""Set-up for the whole tree: the test bed's fixtures, and property tests that no load of the machine makes fail."""

from hypothesis import settings

pytest_plugins = ["tests.testbed.fixtures"]

# Hypothesis fails an example that took longer than 200 ms; on a shared machine any does.
settings.register_profile("dm", deadline=None)
settings.load_profile("dm")
