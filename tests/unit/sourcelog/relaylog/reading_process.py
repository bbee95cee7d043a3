"""A reader of a relay, in a process of its own: `python -m tests.unit.sourcelog.relaylog.reading_process <relay
directory>`.

Says `reading` when it has read the first event, and at the event that ends where standard input's one line says
(`<file> <offset>`) how many events it had, and their digest.
"""

from __future__ import annotations

import hashlib
import json
import sys
import threading
from pathlib import Path

from dm.position import Position
from dm.sourcelog.relaylog.relay_source import RelayEventSource
from tests.unit.sourcelog.relaylog.small_relay import FILE, is_stored


def main() -> None:
    source = RelayEventSource(Path(sys.argv[1]), "mysql")
    ends: list[tuple[str, int]] = []

    def learn_end() -> None:
        file, offset = sys.stdin.readline().split()
        ends.append((file, int(offset)))

    threading.Thread(target=learn_end, daemon=True).start()
    count, digest, place = 0, hashlib.sha256(), ("", 0)
    for event in source.events(Position("", FILE.format(1)), threading.Event()):
        if event is not None and is_stored(event):
            if not count:
                print("reading", flush=True)
            count += 1
            digest.update(event.raw.data)
            place = (event.file, event.end_offset)
        if place in ends:
            break
    print(json.dumps({"events": count, "digest": digest.hexdigest()}), flush=True)


if __name__ == "__main__":
    main()
