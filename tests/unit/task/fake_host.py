"""A unit host whose units do what a script file says: `python fake_host.py NAME PARENT_PID`, as the real one.

The script is JSON at `<work directory>/script.json`: what each unit does on each source, and which error it raises.
It is read when a unit starts, so a test can change it between two runs. Every start is noted in `trace` beside it.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from dm.errors import DMError
from dm.task.factories import Factories
from dm.task.host import main
from dm.unit import JSON, UnitName

_TAKEN = threading.Event()


class SilentError(Exception):
    """Can't say what it is, as py4j's can't when the JVM is gone."""

    def __str__(self) -> str:
        raise ConnectionRefusedError


class ScriptedUnit:
    """Does what its entry of the script says: finish, run, be behind or starting, wait, raise an error, and others."""

    def __init__(self, name: UnitName, payload: Mapping[str, JSON]) -> None:
        self.name = name
        config = cast(dict[str, Any], payload.get("config") or payload.get("source") or {})
        self._source = str(config.get("source_id") or config.get("source", {}).get("source_id", ""))
        self._directory = Path(str(payload.get("work_directory") or payload["directory"]))
        self._rows = self._told = 0
        self._payload = payload
        self._asked, self._over = threading.Event(), threading.Event()
        if name != "Spark":
            self._directory.mkdir(parents=True, exist_ok=True)
        if name in ("Dump", "Load"):
            _TAKEN.set()

    def run(self, stop: threading.Event) -> None:
        if self.name == "Spark":  # as the real one: it ends when another unit has its session
            (self._directory / ".spark").mkdir(parents=True)
            told = self._directory.parents[1] / "ahead"
            told.write_text(f"{os.getpid()}\n")
            while not (stop.wait(0.01) or _TAKEN.is_set()):
                pass
            with told.open("a") as file:
                file.write("stopped" if stop.is_set() else "taken")
            return
        if self.name == "Sync":
            relay = self._payload.get("relay_directory")
            (self._directory / "reads").write_text("the source" if relay is None else "the relay")
            (self._directory / "until").write_text(json.dumps(self._payload.get("until")))
        with (self._directory / "trace").open("a") as trace:
            trace.write(f"{self.name} {self._source} {os.getpid()}\n")
        match self._action():
            case "finish":
                return
            case "starting" | {"waits": _} | {"says": _}:
                stop.wait()
            case "run" | "behind":
                while not stop.wait(0.01):
                    self._rows += 1
            case "ignore-stop":
                while True:
                    time.sleep(1)
            case "print":
                print('{"event": "finished", "run": 1}')
                os.system("echo noise of a child process")
                stop.wait()
            case "break":
                raise RuntimeError("a defect")
            case "take-all-memory":
                bytearray(1 << 62)
            case "break-silently":
                raise SilentError
            case {"error": str(name), **details}:
                if details.pop("once", False) and len((self._directory / "trace").read_text().splitlines()) > 1:
                    stop.wait()
                    return
                if details.pop("when", None) == "asked":
                    self._asked.wait()
                    self._over.set()
                named: dict[str, Any] = {str(key): value for key, value in details.items()}
                place = named.pop("place", None)
                error = DMError(name, **named)
                error.place = place
                raise error

    def _action(self) -> Any:
        script = self._directory / "script.json"
        actions = json.loads(script.read_text()) if script.exists() else {}
        by_default = "finish" if self.name in ("Dump", "Load") else "run"
        return actions.get(f"{self.name} {self._source}") or actions.get(self.name) or by_default

    def ask(self, question: str, arguments: Mapping[str, JSON]) -> JSON:
        """Says what it was asked; a file called `refused` is refused, of one called `broken` nothing is known.

        A run that is to fail when it is asked whether it has passed an event ends by that.
        """
        if question == "passed":
            self._asked.set()
            if self._action() == "run":
                return True
            self._over.wait()
            raise DMError("unit-not-there", question=question)
        if question == "binlog":
            (self._directory / "asked").write_text(json.dumps(arguments))
            return []
        if arguments["file"] == "refused.000001":
            raise DMError("relay-purge-unknown-file", source="one", file="refused.000001", sub="x", there="none")
        if arguments["file"] == "broken.000001":
            raise RuntimeError("a defect")
        said: list[JSON] = [f"{question} {arguments['file']} {arguments['sub_directory']}"]
        return {"removedFiles": said, "removedBytes": "7", "removedDirectories": [], "keptBack": ""}

    def status(self) -> Mapping[str, JSON]:
        if self.name == "Relay":
            self._told += 1
            action = self._action()
            if isinstance(action, dict) and "waits" in action:
                details = {key: value for key, value in action.items() if key != "waits"}
                report = cast("JSON", DMError(action["waits"], **details).report())
                return {"result": {"isCanceled": False, "errors": [report], "detail": "it tries again by itself"}}
            fails = isinstance(action, dict) and "error" in action and "once" not in action
            return {
                "relayBinlog": "" if fails else "(mysql-bin.000001, 154)",  # it receives nothing before it fails
                "relayCatchUpMaster": True,
                "recoveryReadBytes": self._told,
            }
        if self.name == "Validator":
            config = cast(dict[str, Any], self._payload["config"])
            return {"mode": config["validator"]["mode"], "validatorBinlog": f"(b.000001, {self._rows})"}
        if self._action() == "starting":
            return {"starting": True, "waiting": "the target"}
        return {
            "totalRows": self._rows,
            "synced": self._action() != "behind",
            "secondsBehindMaster": 0.0,
            "sourceAnswers": True,
            "targetAnswers": True,
            "syncerBinlog": "(mysql-bin.000001, 154)",
            **self._said(),
        }

    def _said(self) -> dict[str, JSON]:
        """What the script has the unit say besides."""
        action = self._action()
        return cast("dict[str, JSON]", action.get("says", {})) if isinstance(action, dict) else {}


def factory(name: UnitName) -> Any:
    return lambda payload: ScriptedUnit(name, payload)


def run() -> None:
    """The process."""
    real, _ = Factories().parts()
    scripted = {name: factory(name) for name in ("Relay", "Dump", "Load", "Sync", "Spark", "Validator")}

    def diff(payload: Mapping[str, JSON]) -> Any:
        there = (Path(str(payload["directory"])) / "script.json").exists()
        return (factory("Diff") if there else real["Diff"])(payload)

    main({**real, **scripted, "Diff": diff})


if __name__ == "__main__":
    run()
