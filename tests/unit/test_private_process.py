"""What a process keeps to itself, whatever the shell that began it allows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

_PROGRAM = """
import ctypes, os, pathlib, resource, sys
from dm.private_process import keep_to_itself
os.umask(0)
keep_to_itself()
where = pathlib.Path(sys.argv[1])
(where / "made").mkdir()
(where / "made" / "file").write_text("rows")
modes = [oct(path.stat().st_mode & 0o777) for path in (where / "made", where / "made" / "file")]
PR_GET_DUMPABLE = 3
child = os.fork()
dumpable = ctypes.CDLL(None).prctl(PR_GET_DUMPABLE, 0, 0, 0, 0)
if child == 0:
    os._exit(dumpable)
forked = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
own = os.path.samefile("/proc/self/fd/1", "/dev/stdout")
print(*modes, resource.getrlimit(resource.RLIMIT_CORE), dumpable, forked, own)
"""


def test_files_are_its_users_and_no_core_is_written(tmp_path: Path) -> None:
    command = [sys.executable, "-c", _PROGRAM, str(tmp_path)]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    assert said.strip() == "0o700 0o600 (0, 0) 0 0 True"
