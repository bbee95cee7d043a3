"""`python -m dm.cli.healthy`: exit status 0 if the dm-worker of this home answers; none is started.

For what looks after a container: verbs of `dmctl` would start a dm-worker where none runs.
"""

from __future__ import annotations

import os
import sys

from dm.cli.client import Client
from dm.cli.output import say
from dm.errors import DMError

_SECONDS = 5.0


def main() -> int:
    """The exit status."""
    try:
        return 0 if Client(None, os.environ, lambda _: None, _SECONDS).running() else 1
    except DMError as error:
        say(str(error))
        return 1


if __name__ == "__main__":
    sys.exit(main())
