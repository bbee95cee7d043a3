"""Where a task starts that has no checkpoint: `meta` of an instance, and whether it fits the task and its source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, ClassVar

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.problem import Report
from dm.config.scalar import Text, whole
from dm.config.section import Issue, Section
from dm.config.source import GtidText, SourceConfig

_USING = ("incremental", "load&sync")


class StartPoint(Section):
    """Where an incremental task starts that has no checkpoint."""

    place: ClassVar = "under `meta`"
    binlog_name: Text = ""
    binlog_pos: Annotated[int, whole(0)] = 4
    binlog_gtid: GtidText = ""

    def check(self) -> Iterator[Issue]:
        """A position needs a file, or it must be a GTID set."""
        if not self.binlog_name and not self.binlog_gtid:
            yield Issue("config-meta", "", expected="`binlog-name` and `binlog-pos`, or `binlog-gtid`")
        elif self.binlog_name and ("/" in self.binlog_name or not self.binlog_name.rpartition(".")[2].isdigit()):
            value = repr(self.binlog_name[:60])
            expected = "a binlog file name such as `mysql-bin.000001`"
            yield Issue("config-bad-value", "binlog-name", expected=expected, details={"value": value})


def check_start_points(task: YamlMap, sources: Mapping[str, SourceConfig] | None, report: Report) -> None:
    """Record a start point of the wrong kind, and warn of one that is never used."""
    instances = task.get("mysql-instances")
    mode = task.get("task-mode")
    for instance in instances if isinstance(instances, YamlList) else ():
        meta = instance.get("meta") if isinstance(instance, YamlMap) else None
        if not isinstance(meta, YamlMap):
            continue
        if isinstance(mode, Scalar) and mode.text not in _USING:
            report.add(
                "config-no-effect",
                instance.mark_of("meta"),
                meta.path,
                key="meta",
                why=f"a task of mode `{mode.text[:20]}` starts from its own dump",
                warning=True,
            )
            continue
        named = instance.get("source-id")
        source = (sources or {}).get(named.text) if isinstance(named, Scalar) else None
        if source is None:
            continue
        wanted = "binlog-gtid" if source.enable_gtid else "binlog-name"
        value = meta.get(wanted)
        others = [key for key in ("binlog-name", "binlog-gtid") if key in meta]
        if others and not (isinstance(value, Scalar) and value.text):
            state = "has" if source.enable_gtid else "does not have"
            report.add(
                "config-meta",
                instance.mark_of("meta"),
                meta.path,
                expected=f"`{wanted}`, because source `{source.source_id}` {state} `enable-gtid: true`",
            )
