"""`spark`: the session in which the full dump and load run; a section of ours."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SerializationInfo, field_serializer

from dm.config.scalar import Text, flag_or, matching, one_of, whole
from dm.config.secret import MASK
from dm.config.section import Issue, Section

DumpFormat = Literal["parquet", "sql"]
DumpFiles = Literal["all", "auto", "none"]
JsonTypes = Literal["exact", "text"]

_SIZE_EXAMPLE = "a size such as `512m` or `2g`"
# Spark, "Submitting Applications", master URLs.
_MASTER = r"|local(\[(\*|[1-9][0-9]*)(\s*,\s*[0-9]+)?\])?|local-cluster\[.+\]|spark://.+|yarn|k8s://.+"
_MASTER_EXAMPLE = "a master URL of Spark such as `local[4]`, `spark://host:7077`, `yarn` or `k8s://host:443`"
# Of Spark's settings those that would break what a dump or load rests on: setting -> (values that do, what to use).
_REFUSED = {
    "spark.master": ("", "use `master`"),
    "spark.submit.deployMode": ("cluster", "leave it out: the driver is part of the task's process"),
    "spark.authenticate": ("false", "use `true`: else whoever reaches the driver's ports is given passwords"),
    "spark.speculation": ("true", "leave it out: a chunk that is read twice at a time doubles the source's load"),
}
_SECRET_KEY = re.compile(r"secret|password|token|credential|access\.?key", re.IGNORECASE)


class SparkConfig(Section):
    """Where Spark runs and with what."""

    place: ClassVar = "under `spark`"
    master: Annotated[str, matching(_MASTER, "config-bad-value", _MASTER_EXAMPLE)] = ""  # empty: see `master_for`
    conf: dict[str, Text] = Field(default_factory=dict)
    packages: tuple[Text, ...] = ()  # Maven coordinates
    archives: tuple[Text, ...] = ()  # unpacked beside each executor
    python: Text = ""  # of the executors; empty: the path of the one that runs dm
    num_executors: Annotated[int, whole(1, 100_000)] | None = None
    executor_cores: Annotated[int, whole(1, 1024)] | None = None
    executor_memory: Annotated[str, matching(r"([1-9][0-9]*[kmgt])?", "config-bad-value", _SIZE_EXAMPLE)] = ""
    driver_memory: Annotated[str, matching(r"[1-9][0-9]*[kmgt]", "config-bad-value", _SIZE_EXAMPLE)] = "512m"
    java_home: Text = ""  # empty: JAVA_HOME, then java of the path, then the one installed with dm
    json_types: Annotated[JsonTypes, one_of(JsonTypes)] = "exact"  # of MySQL's documents; text: what the text says
    dump_files: Annotated[DumpFiles, one_of(DumpFiles)] = (
        "all"  # none: keyed tables are copied without; auto: those that can be taken back
    )
    # Of tables that the load makes: secondary ones and foreign keys come after the rows. auto: of large tables, if the
    # task has one source.
    defer_indexes: Annotated[bool | Literal["auto"], flag_or("auto")] = "auto"
    dump_format: Annotated[DumpFormat, one_of(DumpFormat)] = "parquet"

    @property
    def settings(self) -> dict[str, str]:
        """All of it under Spark's own names; what `conf` says wins."""
        named = {
            "spark.jars.packages": ",".join(self.packages),
            "spark.archives": ",".join(self.archives),
            "spark.executor.memory": self.executor_memory,
            "spark.executor.cores": str(self.executor_cores or ""),
            "spark.executor.instances": str(self.num_executors or ""),
        }
        if self.num_executors and self.executor_cores and self.master.startswith("spark://"):
            named["spark.cores.max"] = str(self.num_executors * self.executor_cores)  # standalone counts cores only
        return {name: value for name, value in named.items() if value} | self.conf

    def master_for(self, threads: int) -> str:
        """The master; where the task names none, this machine with room for so many sessions of a server.

        Who reads or writes waits for a server much of the time, so few cores get up to twice as many workers as they
        are; not more, since each is a process of some 100 MB.
        """
        cores = len(os.sched_getaffinity(0))
        return self.master or (f"local[{min(threads, 2 * cores)}]" if cores < threads else "local[*]")

    def check(self) -> Iterator[Issue]:
        """What can not be as it is written."""
        for name, (value, hint) in _REFUSED.items():
            found = self.conf.get(name)
            if found is not None and found.lower().startswith(value):
                yield Issue("config-refused-value", "conf", "", hint, details={"value": f"`{name}: {found}`"})
        if self.num_executors and not self.executor_cores and self.master.startswith("spark://"):
            hint = "set `executor-cores` too: a standalone cluster is asked for cores"
            details = {"value": str(self.num_executors)}
            yield Issue("config-refused-value", "num-executors", "", hint, details=details)

    @field_serializer("conf")
    def _masked(self, value: dict[str, str], info: SerializationInfo) -> dict[str, str]:
        if isinstance(info.context, dict) and info.context.get("reveal") is True:
            return value
        return {key: MASK if _SECRET_KEY.search(key) else setting for key, setting in value.items()}
