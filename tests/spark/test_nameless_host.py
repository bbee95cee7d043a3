"""Spark starts on a host whose own name has no address, as in containers and on hosts that were renamed."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.chaos]

_CODE = """
import socket, sys
from pathlib import Path
from dm.spark.session import SparkProvider
try:
    socket.getaddrinfo(socket.gethostname(), None)
except socket.gaierror:
    provider = SparkProvider("local[1]", scratch=Path(sys.argv[1]))
    try:
        print(provider.context().parallelize(range(4), 2).map(lambda one: one + 1).sum())
    finally:
        provider.close()
"""


def test_a_session_starts_where_the_hosts_name_has_no_address(tmp_path: Path) -> None:
    words = 'hostname nowhere-of-dm && exec "$0" -c "$1" "$2"'
    done = subprocess.run(
        ["unshare", "--map-root-user", "--uts", "sh", "-c", words, sys.executable, _CODE, str(tmp_path)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert socket.gethostname() != "nowhere-of-dm"
    assert (done.returncode, done.stdout) == (0, "10\n"), done.stderr[-2000:]
