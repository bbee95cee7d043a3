"""Waiting for a run that the daemon makes for this command; a person who gives up ends it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any, Final

from dm.cli import output as printer
from dm.cli.client import Client

_SECONDS: Final = 0.5


def wait_for(client: Client, address: str, what: str, progress: Callable[[Any], str] | None) -> dict[str, Any]:
    """The answer at its end; says on stderr how far it is, where that is wanted."""
    told = ""
    try:
        while True:
            answer: dict[str, Any] = client.get(address)
            if answer["ended"]:
                return answer
            if progress is not None and (words := progress(answer)) != told:
                printer.say(words)
                told = words
            time.sleep(_SECONDS)
    except KeyboardInterrupt:
        client.post(f"{address}/stop")
        printer.say(f"the {what} is ended")
        sys.exit(2)
