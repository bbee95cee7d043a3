"""A Debian of its own that systemd boots, in namespaces of this machine: for a test that installs dm as a service.

It is the system of scripts/fetch_debian.sh below an overlay, so no test leaves anything in it. Processes, mounts, host
name and control groups are its own; the network is the machine's, so it reaches the test's servers at 127.0.0.1, and a
browser here reaches it. Its PID 1 dies with the test run, and with it all of its processes.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from dm.demo.installation import cache_directory
from dm.demo.private_server import GuardedProcess
from tests.testbed.looks import looks

# What a container's manager does before it hands over to systemd. /proc/sys can't be written: it is the machine's own.
_BOOT: Final = """
set -eu
root=$1
mount --make-rprivate /
mount -t overlay overlay -o "lowerdir=$2,upperdir=$3,workdir=$4" "$root"
mount -t proc proc "$root/proc"
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
mount -t cgroup -o none,name=systemd,xattr cgroup "$root/sys/fs/cgroup/systemd"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/dev"
for device in null zero full random urandom tty; do
    touch "$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/shm" "$root/dev/pts"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
hostname machine
# Not chroot: a process in one may not begin a user namespace, which `PrivateUsers=yes` does.
cd "$root"
pivot_root . .
umount -l .
exec env -i container=dm-test PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --log-target=null
"""
_SECONDS: Final = 300.0  # a limit for what hangs


@dataclass
class Machine:
    """One that runs."""

    pid: int  # of its systemd

    def run(self, *words: str, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command in it as root, to its end; by default that must be a success."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--mount", "--pid", "--uts", "--ipc", "--cgroup", "--root",
             "env", "--chdir=/", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
             *(f"{name}={value}" for name, value in environment.items()), *words],
            capture_output=True, text=True, check=False, timeout=_SECONDS * 3,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done

    def put(self, path: str, content: bytes, mode: int = 0o644, owner: str = "root:root") -> None:
        """Write a file."""
        done = subprocess.run(
            ["nsenter", f"--target={self.pid}", "--mount", "--root", "/bin/sh", "-c",
             'umask 077; mkdir -p "${1%/*}"; chmod 755 "${1%/*}"; cat > "$1"; chmod "$2" "$1"; chown "$3" "$1"',
             "sh", path, f"{mode:o}", owner],
            input=content, capture_output=True, check=False, timeout=_SECONDS,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr.decode()


@contextmanager
def machine(directory: Path, files: Mapping[str, Path]) -> Iterator[Machine]:
    """Boot one with these directories, by where they are over there; skips the test where there is no Debian for it."""
    base = cache_directory() / "debian"
    if not (base / "complete").exists() or shutil.which("nsenter") is None:
        pytest.skip("scripts/fetch_debian.sh, as root, puts the Debian in place that this test boots")
    places = [directory / name for name in ("root", "upper", "work")]
    for place in places:
        place.mkdir(parents=True)
    for there, here in files.items():
        shutil.copytree(here, places[1] / there.strip("/"))
    script = directory / "boot.sh"
    script.write_text(_BOOT, encoding="utf-8")
    words = ["/bin/sh", str(script), str(places[0]), str(base / "root"), str(places[1]), str(places[2])]
    namespaces = ["--pid", "--mount", "--uts", "--ipc", "--cgroup"]
    process = GuardedProcess(["unshare", *namespaces, "--fork", "--kill-child", *words], log=directory / "boot.log")
    try:
        one = Machine(_child(process.pid))
        _await_boot(one, directory / "boot.log")
        yield one
    finally:
        process.send(signal.SIGKILL)
        process.wait(60)


def _child(pid: int) -> int:
    """The process that `unshare` has made, which is PID 1 over there."""
    for _ in looks(_SECONDS):
        found = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
        if found:
            return int(found[0])
    raise AssertionError("unshare has made no process")


def _await_boot(one: Machine, log: Path) -> None:
    said = ""
    for _ in looks(_SECONDS):
        done = one.run("systemctl", "is-system-running", check=False)
        said = f"{done.stdout}{done.stderr}"
        if done.stdout.strip() in ("running", "degraded"):
            return
    failed = one.run("systemctl", "list-jobs", check=False)
    raise AssertionError(f"{said}: {failed.stdout}, {log.read_text(encoding='utf-8')}")
