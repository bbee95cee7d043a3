"""The extension reads and writes only its own memory, whatever the bytes are: fuzzed under AddressSanitizer."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dm.accelerator import build
from tests.testbed.figures import record

# Each costs some 50 ms of a processor under the sanitizer; every run has another seed.
COUNT = 4_000


def sanitizer_library() -> str:
    """Where AddressSanitizer's library is; it has to be there before Python is."""
    compiler = shutil.which("gcc")
    if compiler is None:
        pytest.skip("there is no gcc")
    found = subprocess.run([compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True)
    path = found.stdout.strip()
    if not Path(path).is_absolute():
        pytest.skip("there is no AddressSanitizer")
    return str(Path(path).resolve())


def fuzz(directory: Path, seed: int, count: int) -> str:
    """What the fuzzer printed; fails with the sanitizer's report."""
    library = sanitizer_library()
    options = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fno-omit-frame-pointer", "-g", "-O1"]
    made = build.build(directory, options)
    done = subprocess.run(
        [sys.executable, "-m", "tests.unit.accelerator.fuzzing", str(made), str(seed), str(count)],
        cwd=Path(__file__).parents[3],
        # Python's own allocator would hide where one object's memory ends.
        env={
            **os.environ,
            "LD_PRELOAD": library,
            "PYTHONMALLOC": "malloc",
            "ASAN_OPTIONS": "detect_leaks=0:allocator_may_return_null=1",
            "DM_ACCELERATOR": "off",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_no_byte_is_read_that_is_not_there(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed}")
    assert "fuzzed" in fuzz(tmp_path, seed, COUNT)
    record("accelerator.sanitizer", {"inputs": COUNT, "seed": seed})
