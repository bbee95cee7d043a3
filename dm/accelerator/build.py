"""Building the extension in place: `python -m dm.accelerator.build`, and the package's own build.

Needed are a C compiler and Python's headers, nothing else. Where one is missing the answer is a sentence, and dm runs
without the extension. The compiler writes beside the old file and that is replaced at once: a process that has it
loaded keeps what it has.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from dm.accelerator import switch

SOURCES: Final = Path(__file__).parent
_OPTIONS: Final = ("-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-Wall", "-Wextra")


class NotBuilt(Exception):
    """Raised with a sentence that says what is missing or failed."""


def target(directory: Path = SOURCES) -> Path:
    """Where this Python looks for the extension."""
    return directory / f"{switch.NAME}{sysconfig.get_config_var('EXT_SUFFIX')}"


def current() -> bool:
    """Whether the extension is there, made of the C files as they are now, and not older than how it is built."""
    made = target()
    if not made.exists() or made.stat().st_mtime < Path(__file__).stat().st_mtime:
        return False
    question = f"from {switch.__name__} import state; print(state())"
    environment = {**os.environ, switch.VARIABLE: "on"}
    done = subprocess.run(
        [sys.executable, "-c", question], env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() == "on"


def build(directory: Path = SOURCES, options: Sequence[str] = ()) -> Path:
    """Compile the extension into a directory, with more options if any are given; raises NotBuilt."""
    if os.name != "posix" or sys.implementation.name != "cpython":
        raise NotBuilt(f"it is not made for {sys.implementation.name} on {os.name}")
    # What the interpreter was built with may be somewhere else, or nowhere.
    command = shlex.split(os.environ.get("CC", "") or sysconfig.get_config_var("CC") or "cc")
    compiler = next(filter(None, map(shutil.which, (command[0], "cc", "gcc", "clang"))), None)
    if compiler is None:
        raise NotBuilt("there is no C compiler")
    headers = sysconfig.get_paths()["include"]
    if not Path(headers, "Python.h").exists():
        raise NotBuilt(f"there is no Python.h in {headers}")
    made = target(directory)
    written = made.with_name(f".{made.name}.{os.getpid()}")
    sources = [str(source) for source in sorted(SOURCES.glob("*.c"))]
    # Some compilers of interpreters link an extension in a way of their own (macOS).
    shared = ("-undefined", "dynamic_lookup") if sys.platform == "darwin" else ()
    made_of = f"-DDM_SOURCES={switch.sources_sum()}L"
    arguments = [compiler, *_OPTIONS, made_of, *options, *shared, f"-I{headers}", *sources, "-o", str(written)]
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, check=False)
        if done.returncode:
            raise NotBuilt(f"{compiler} failed: {done.stderr.strip()}")
        os.replace(written, made)
    except OSError as error:
        raise NotBuilt(str(error)) from error
    finally:
        written.unlink(missing_ok=True)
    return made


def main() -> int:
    """Build what is not current; 1 where it can't be built, which harms nothing but speed."""
    if current():
        return 0
    try:
        build()
    except NotBuilt as why:
        sys.stderr.write(f"the compiled accelerator was not built, dm runs without it: {why}\n")
        return 1
    sys.stderr.write(f"built {target().name}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
