"""`python -m benchmarks.pull_ours`: pull one file into a relay directory; stdout says in how much CPU."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import SecretStr

from benchmarks.unit_thread import run_until
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

    found: list[Path] = []

    def pulled() -> bool:
        if not found:
            found.extend(directory.glob(f"*/{order['file']}"))
        return bool(found) and found[0].stat().st_size >= order["size"]

    _, seconds = run_until(unit, pulled, _SECONDS)
    print(json.dumps({"seconds": seconds}))


if __name__ == "__main__":
    main()
