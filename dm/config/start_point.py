"""Whether `meta` of an instance fits the task's mode and the source's way of reading its binlog."""

from __future__ import annotations

from collections.abc import Mapping

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.problem import Report
from dm.config.source import SourceConfig

_USING = ("incremental", "load&sync")


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
