"""An archive of the classes that Spark's JVM loads: with it the JVM starts at about half the cost.

Problem: a local session reads and verifies thousands of classes out of Spark's jars before the first row moves, which
is most of what a small load costs. A JVM can map them from a file instead (class-data sharing, JEP 350): one JVM
writes the file at its end (`-XX:ArchiveClassesAtExit`), later ones are told of it (`-XX:SharedArchiveFile`).

Invariant: the archive changes how soon classes are there, never which ones. The JVM compares its own build and its
class path with those of the archive, and reads the jars as ever where they differ. The file's name depends on both, so
an update of Java or Spark asks for a new file. It lies in the environment that dm is installed in, and goes with it.

`python -m dm.spark.build_class_archive` makes it. Without it nothing is different but the time.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from pathlib import Path

from dm.spark.java import version_text


def archive_path(java_home: Path, spark_home: Path) -> Path:
    """Where the archive for this Java and this Spark is, or would be."""
    built_for = (version_text(java_home / "bin" / "java"), importlib.metadata.version("pyspark"), str(spark_home))
    name = hashlib.sha256("\0".join(map(str, built_for)).encode()).hexdigest()[:16]
    return Path(sys.prefix) / "share" / "dm" / f"spark-classes-{name}.jsa"


def java_options(archive: Path) -> str:
    """What a JVM is started with to use the archive; nothing where it was not made."""
    if not archive.is_file() or any(letter.isspace() for letter in str(archive)):  # Spark splits its options there
        return ""
    return f" -XX:SharedArchiveFile={archive} -Xlog:cds=off -Xlog:cds+dynamic=off"
