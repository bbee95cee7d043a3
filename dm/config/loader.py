"""`loaders`: how the full load writes to the target."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from dm.config.document import Scalar, YamlMap
from dm.config.object_storage import ObjectStorage, is_object_storage, read_object_storage
from dm.config.scalar import Text, one_of, whole
from dm.config.section import Issue, LoadContext, Section

ImportMode = Literal["logical", "sql", "loader", "physical", "import-into"]
OnDuplicate = Literal["replace", "ignore", "error"]

# Keys of TiDB's physical import, and the values that `dmctl config` of DM prints where a file has none.
_PHYSICAL_KEYS: dict[str, tuple[str, ...]] = {
    "on-duplicate-physical": ("none",),
    "sorting-dir-physical": (),
    "sorting-dir": (),
    "disk-quota-physical": ("0",),
    "disk-quota": ("0",),
    "checksum-physical": ("required",),
    "checksum": ("required",),
    "analyze": ("optional",),
    "range-concurrency": ("0",),
    "compress-kv-pairs": (),
    "pd-addr": (),
}
# DM's own value: `dir`, the task's name and this; or, where `dir` is in object storage, this and the task's name.
_SORTING_DIRECTORY, _SORTING_HERE = ".sorting", "./sorting."
_LOGICAL = "use `logical`; TiDB Lightning imports a dump of `task-mode: dump` with `spark: {dump-format: sql}`"
PHYSICAL = "leave it out: it is for TiDB's physical import; rows are loaded with `import-mode: logical`"


class LoaderConfig(Section):
    """One entry of `loaders`."""

    place: ClassVar = "under `loaders`"
    deprecated: ClassVar = {"on-duplicate": "use `on-duplicate-logical`"}
    refused: ClassVar = dict.fromkeys(_PHYSICAL_KEYS, PHYSICAL)
    idle_values: ClassVar = _PHYSICAL_KEYS
    unset_values: ClassVar = {"pool-size": ("0",), "import-mode": ("",), "on-duplicate-logical": ("",), "dir": ("",)}

    pool_size: Annotated[int, whole(1, 1024)] = 16  # parts that are written at a time, at most 256
    dir: Text = "./dumped_data"  # the task's name is appended, as in DM; of object storage bucket and prefix
    storage: ObjectStorage | None = None  # what `dir` says of object storage
    import_mode: Annotated[ImportMode, one_of(ImportMode, "config-import-mode", fold=True)] = "logical"
    on_duplicate_logical: Annotated[OnDuplicate, one_of(OnDuplicate, "config-on-duplicate", fold=True)] = "replace"

    @classmethod
    def file_keys(cls) -> list[str]:
        """Without what `dir` says."""
        return [key for key in super().file_keys() if key != "storage"]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Part a place in object storage from its keys."""
        named = data.get("dir")
        if isinstance(named, Scalar) and is_object_storage(named.text):
            storage = read_object_storage(named, context)
            del data["dir"]
            if storage is not None:
                data["dir"], data["storage"] = replace(named, text=storage.address), storage

    @classmethod
    def _idle(cls, key: str, value: object) -> bool:
        """Also DM's own directory for sorting, whose name the task's is part of."""
        written = value.text if isinstance(value, Scalar) and key.startswith("sorting-dir") else ""
        own = written.endswith(_SORTING_DIRECTORY) or written.startswith(_SORTING_HERE)
        return own or super()._idle(key, value)

    def check(self) -> Iterator[Issue]:
        """Physical import is TiDB's own; of object storage there is S3."""
        if self.import_mode in ("physical", "import-into"):
            value = repr(self.import_mode)
            yield Issue("config-import-mode", "import-mode", suggestion=_LOGICAL, details={"value": value})
        elif self.import_mode in ("sql", "loader"):
            yield Issue(
                "config-deprecated-key",
                "import-mode",
                suggestion="use `logical`",
                warning=True,
                details={"key": self.import_mode},
            )
        if "://" in self.dir and self.storage is None:
            yield Issue(
                "config-refused-value",
                "dir",
                expected="a directory, or `s3://bucket/prefix?endpoint=..`",
                details={"value": repr(self.dir.split("://", 1)[0] + "://")},
            )
