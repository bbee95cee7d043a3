"""A program of ours in a process of its own, with one Spark session; it answers each line with one."""

from __future__ import annotations

import json
import subprocess
import sys
from types import TracebackType
from typing import Self

from dm.unit import JSON


class SparkProcess:
    """`python -m MODULE`, whose session is there when this is; what it takes has the JVM and Spark's workers in it."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process = subprocess.Popen(
            [sys.executable, "-m", module], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._read()  # the session is there

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    def ask(self, order: JSON) -> str:
        """Have it do something; gives what it says when that is done."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._module} ended with {self._process.wait()}")
        return line
