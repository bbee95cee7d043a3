"""The console script `dm-worker`, which says so where only the packages of `dmctl` are installed."""

from __future__ import annotations

import sys

from dm.errors import DMError
from dm.worker.installed import demand_worker


def main() -> None:
    """Be the daemon."""
    try:
        demand_worker()
    except DMError as error:
        sys.stderr.write(f"dm-worker: {error}\n")
        sys.exit(1)
    from dm.worker.daemon import main as serve

    serve()
