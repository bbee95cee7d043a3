"""`spark`: the session in which the full dump and load run; a section of ours."""

from __future__ import annotations

import re
from typing import Annotated, ClassVar, Literal

from pydantic import Field, SerializationInfo, field_serializer

from dm.config.endpoint import MASK
from dm.config.scalar import Text, matching, one_of
from dm.config.section import Section

DumpFormat = Literal["parquet", "sql"]

_SECRET_KEY = re.compile(r"secret|password|token|credential|access\.?key", re.IGNORECASE)


class SparkConfig(Section):
    """Where Spark runs and with what."""

    place: ClassVar = "under `spark`"
    master: Text = "local[*]"
    conf: dict[str, Text] = Field(default_factory=dict)
    driver_memory: Annotated[
        str, matching(r"[1-9][0-9]*[kmgt]", "config-bad-value", "a size such as `512m` or `2g`")
    ] = "512m"
    java_home: Text = ""  # empty: JAVA_HOME, then java of the path, then the one installed with dm
    dump_format: Annotated[DumpFormat, one_of(DumpFormat)] = "parquet"

    @field_serializer("conf")
    def _masked(self, value: dict[str, str], info: SerializationInfo) -> dict[str, str]:
        if isinstance(info.context, dict) and info.context.get("reveal") is True:
            return value
        return {key: MASK if _SECRET_KEY.search(key) else setting for key, setting in value.items()}
