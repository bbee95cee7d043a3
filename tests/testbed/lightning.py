"""TiDB Lightning, which reads the SQL files of a dump and writes them into a TiDB by SQL (`backend = "tidb"`).

`make tidb` builds it beside the server. The backend that copies sorted files into TiKV needs a cluster; how a dump is
found, told apart and parsed is the same for both.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from dm.demo.installation import cache_directory
from tests.testbed.tidb import TidbServer

_SECONDS = 120


def binary() -> Path:
    """Where `make tidb` puts it."""
    return cache_directory() / "tidb" / "tidb-lightning"


def import_dump(dump: Path, target: TidbServer, directory: Path) -> None:
    """Run it on a dump; raises AssertionError with the end of its log where it does not import all."""
    directory.mkdir(parents=True)
    tables: dict[str, dict[str, object]] = {
        "lightning": {
            "status-addr": "",
            "file": str(directory / "lightning.log"),
            "check-requirements": False,
            "level": "info",
        },
        "tikv-importer": {"backend": "tidb"},
        "checkpoint": {"enable": False},
        "mydumper": {"data-source-dir": str(dump)},
        "tidb": {
            "host": target.host,
            "port": target.port,
            "user": target.user,
            "password": target.password,
            # Those of the files' headers, which it passes over.
            "sql-mode": "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES,STRICT_ALL_TABLES",
        },
    }
    configuration = directory / "lightning.toml"
    configuration.write_text(_toml(tables), encoding="utf-8")
    ended = subprocess.run(
        [str(binary()), "-config", str(configuration)], capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    log = (directory / "lightning.log").read_text(encoding="utf-8")
    assert ended.returncode == 0, f"{ended.stdout[-2000:]}\n{ended.stderr[-2000:]}\n{log[-3000:]}"


def _toml(tables: dict[str, dict[str, object]]) -> str:
    """Strings, numbers and booleans look in TOML as in JSON."""
    return "\n".join(
        f"[{name}]\n" + "".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items())
        for name, keys in tables.items()
    )
