"""Test set-up for the whole tree: the test bed's fixtures."""

pytest_plugins = ["tests.testbed.fixtures"]
