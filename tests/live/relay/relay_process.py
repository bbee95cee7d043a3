"""A relay in a process of its own, so that a test can kill it: `python -m tests.live.relay.relay_process`.

Reads one JSON object from its standard input: the source's wire form, the directory, the heartbeat in seconds. Writes
its status to standard output once per line read after that. Ends at end of input.
"""

from __future__ import annotations

import json
import sys
import threading
from pathlib import Path

from dm.config.source import SourceConfig
from dm.relay.unit import RelayUnit


def main() -> None:
    given = json.loads(sys.stdin.readline())
    source = SourceConfig.from_wire(given["source"])
    unit = RelayUnit(source, Path(given["directory"]), heartbeat_seconds=given["heartbeat"])
    stop = threading.Event()
    runner = threading.Thread(target=unit.run, args=(stop,))
    runner.start()
    for _ in sys.stdin:
        print(json.dumps(unit.status()), flush=True)
    stop.set()
    runner.join()


if __name__ == "__main__":
    main()
