"""What of dm is installed here: everything, or what `dmctl` needs to ask a dm-worker on another host.

The package has all of dm's code, and by itself brings the packages of others that `dmctl` imports. Those of the daemon
and of its tasks (Spark above all, 490 MB) come with `dm-replicator[worker]`.
"""

from __future__ import annotations

from importlib.util import find_spec

from dm.errors import DMError

_OF_WORKER = ("uvicorn", "fastapi", "structlog", "pymysql", "pyspark")


def installed_version() -> str:
    """The version of this installation; a source tree that was never installed has none."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("dm-replicator")
    except PackageNotFoundError:
        return "uninstalled"


def demand_worker() -> None:
    """Raise DMError where the packages of the daemon are not installed."""
    missing = [name for name in _OF_WORKER if find_spec(name) is None]
    if missing:
        raise DMError("worker-not-installed", missing=", ".join(missing))
