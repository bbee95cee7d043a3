"""Programs run as another user of the machine, as an attacker with a login there would run them.

Only root can become somebody else, so these attacks are skipped for everybody else. The interpreter and its library may
lie where another user can't read: a program is begun as root and gives its rights away before its first line runs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

NOBODY: Final = 65534

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

_PREAMBLE: Final = f"""
import ctypes, encodings.idna, errno, glob, json, os, signal, socket, stat, struct, subprocess, sys, time
import urllib.request
os.setgroups([]); os.setgid({NOBODY}); os.setuid({NOBODY})
assert os.getresuid() == ({NOBODY},) * 3
"""


def as_nobody(program: str, *arguments: str, seconds: float = 120) -> str:
    """What the program prints that `nobody` runs, with its arguments in `sys.argv[1:]`; it must end with 0."""
    done = subprocess.run(
        [sys.executable, "-c", _PREAMBLE + program, *arguments],
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=seconds,
    )
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@contextmanager
def running_as_nobody(program: str, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """The same beside the test: what it prints can be read line by line; it is ended when the test is done with it."""
    command = [sys.executable, "-c", _PREAMBLE + program, *arguments]
    with subprocess.Popen(command, cwd="/", stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running
        finally:
            running.kill()


@contextmanager
def open_directory() -> Iterator[Path]:
    """A directory that every user may enter and read: what is closed in it was closed by dm, not by pytest."""
    with tempfile.TemporaryDirectory(prefix="dm-attack-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
