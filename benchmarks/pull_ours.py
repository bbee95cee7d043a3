"""`python -m benchmarks.pull_ours`: pull one file into a relay directory; stdout says in how much CPU."""

from __future__ import annotations

import json
import sys
import threading
import time
from pathlib import Path

from pydantic import SecretStr

from dm.config.endpoint import Endpoint
from dm.config.source import SourceConfig
from dm.position import MAGIC_SIZE, Position
from dm.relay.unit import RelayUnit

_SECONDS = 300.0


def main() -> None:
    """Pull until the file is there."""
    order = json.load(sys.stdin)
    password = SecretStr(order["password"])
    endpoint = Endpoint(host=order["host"], port=order["port"], user=order["user"], password=password)
    source = SourceConfig(source_id="bench", endpoint=endpoint)
    directory = Path(order["directory"])
    unit = RelayUnit(source, directory, start=Position("", order["file"], MAGIC_SIZE))
    began = time.process_time()
    stop = threading.Event()
    failed: list[BaseException] = []

    def run() -> None:
        try:
            unit.run(stop)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    latest = time.monotonic() + _SECONDS
    pause = threading.Event()
    while not failed and time.monotonic() < latest:
        files = list(directory.glob(f"*/{order['file']}"))
        if files and files[0].stat().st_size >= order["size"]:
            break
        pause.wait(0.02)
    seconds = time.process_time() - began
    stop.set()
    thread.join()
    if failed:
        raise failed[0]
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
