"""`python -m dm.spark.build_class_archive`: make the archive of the classes that Spark's JVM loads."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

from dm.errors import DMError, said
from dm.spark.java import archive_path, find_java_home
from dm.spark.session import SMALL_JVM, SparkProvider

_WRITING_SECONDS = 600.0  # what a JVM may take at its end


def build(archive: Path, scratch: Path) -> None:
    """Run a session that does what those of a load do, whose JVM writes the archive at its end; raises DMError."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    partial = archive.with_name(f"{archive.name}.{os.getpid()}")
    options = f"{SMALL_JVM} -XX:ArchiveClassesAtExit={partial}"
    provider = SparkProvider("local[2]", {"spark.driver.extraJavaOptions": options}, scratch)
    provider.stop_seconds = _WRITING_SECONDS
    try:
        _work(provider, str(scratch / "rows"))
        provider.close()
        if not partial.is_file():
            raise DMError("spark-start-failed", master="local[2]", cause="its JVM wrote no archive of its classes")
        partial.rename(archive)
    finally:
        provider.close()
        partial.unlink(missing_ok=True)


def _work(provider: SparkProvider, rows: str) -> None:
    """Python tasks, a table of Spark's own, Parquet files."""
    total = provider.context().parallelize(range(4), 2).map(lambda one: one + 1).sum()
    session = provider.session()
    table = session.createDataFrame([(1, "a"), (2, "b")], "number int, text string")
    table.write.parquet(rows)
    read = session.read.parquet(rows).where("number > 1").count()
    if (total, read) != (10, 1):
        raise DMError("spark-start-failed", master="local[2]", cause=f"it computed {total} and {read} for 10 and 1")


def main() -> int:
    """Make it where it is not there; tells what was done, and exits with 1 where it can't be."""
    with tempfile.TemporaryDirectory(prefix="dm-classes-") as name:
        scratch = Path(name)
        try:
            from pyspark.find_spark_home import _find_spark_home

            archive = archive_path(find_java_home(scratch), Path(_find_spark_home()))
            if archive.is_file():
                sys.stderr.write("the archive of Spark's classes is in place\n")
                return 0
            build(archive, scratch)
        except (DMError, OSError) as error:
            sys.stderr.write(f"no archive of Spark's classes, so Spark starts as ever: {said(error)}\n")
            return 1
    sys.stderr.write(f"Spark's classes are in {archive}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
