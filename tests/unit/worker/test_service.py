"""dm-worker as a service of systemd: it says when it is ready, and its unit leaves it little to do harm with."""

from __future__ import annotations

import re
import socket
import subprocess
from pathlib import Path

import pytest

from dm.worker.daemon import tell_service_manager
from tests.unit.docs.document import ROOT
from tests.unit.worker.home import TestHome

UNIT = ROOT / "packaging" / "dm-worker.service"


def test_it_says_when_requests_are_answered_and_when_it_ends(tmp_path: Path) -> None:
    one = TestHome(tmp_path / "home", environment={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(120)
        one.daemon = one.launch()
        assert manager.recv(100) == b"READY=1"
        assert one.ok("query-status")["tasks"] == []
        assert one.stop() == 0
        assert manager.recv(100) == b"STOPPING=1"


def test_dmctl_starts_no_daemon_where_a_service_is_one(tmp_path: Path) -> None:
    """It would have the directory when systemd starts the service again."""
    one = TestHome(tmp_path / "home", environment={"NOTIFY_SOCKET": str(tmp_path / "notify")})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        one.start()
        assert one.stop() == 0
    refused = one.dmctl("query-status")
    assert refused.status == 1
    assert "Error 40942" in refused.err
    assert "systemctl start dm-worker" in refused.err
    private = TestHome(one.directory)
    private.start()  # a person who starts one there knows why
    assert private.stop() == 0
    assert not (one.directory / "service").exists()


def test_an_abstract_address_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind("")  # the kernel chooses an abstract name
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{manager.getsockname()[1:].decode()}")
        tell_service_manager("READY=1")
        assert manager.recv(100) == b"READY=1"


def test_a_manager_that_is_gone_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nothing"))
    tell_service_manager("READY=1")


def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    program = tmp_path / "dm-worker"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    here = tmp_path / UNIT.name
    here.write_text(UNIT.read_text().replace("/opt/dm/bin/dm-worker", str(program)).replace("User=dm\nGroup=dm\n", ""))
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", here], capture_output=True, text=True, check=False)
    assert UNIT.name not in done.stderr, done.stderr
    assert done.returncode == 0, done.stderr


def test_its_exposure_is_low() -> None:
    done = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--no-pager", UNIT],
        capture_output=True,
        text=True,
        check=True,
    )
    found = re.search(r"Overall exposure level for .*: ([\d.]+)", done.stdout)
    assert found is not None, done.stdout
    assert float(found[1]) < 3
