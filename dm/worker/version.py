"""The version of this installation."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed_version() -> str:
    """As the package says; a source tree that was never installed has none."""
    try:
        return version("dm-replicator")
    except PackageNotFoundError:
        return "uninstalled"
