"""Where a task starts that has no checkpoint: `meta` of an instance, and whether it fits the task and its source."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from dm.config.document import Scalar, YamlList, YamlMap
from dm.config.problem import Report
from dm.config.scalar import Text, whole
from dm.config.section import Section
from dm.config.source import GtidText, SourceConfig
from dm.decimal_text import is_decimal

_USING = ("incremental", "load&sync")


class StartPoint(Section):
    """Where an incremental task starts that has no checkpoint."""

    place: ClassVar = "under `meta`"
    binlog_name: Text = ""
    binlog_pos: Annotated[int, whole(0)] = 4
    binlog_gtid: GtidText = ""


def check_start_points(task: YamlMap, sources: Mapping[str, SourceConfig] | None, report: Report) -> None:
    """Record a start point of the wrong kind, and warn of one that is never used."""
    instances = task.get("mysql-instances")
    mode = task.get("task-mode")
    for instance in instances if isinstance(instances, YamlList) else ():
        meta = instance.get("meta") if isinstance(instance, YamlMap) else None
        if not isinstance(instance, YamlMap) or not isinstance(meta, YamlMap):
            continue
        if not isinstance(mode, Scalar) or mode.text in _USING:
            _check(meta, instance, sources or {}, report)
        elif _text(meta, "binlog-name") or _text(meta, "binlog-gtid"):  # what DM writes for no meta says nothing
            report.add(
                "config-no-effect",
                instance.mark_of("meta"),
                meta.path,
                key="meta",
                why=f"a task of mode `{mode.text[:20]}` starts from its own dump",
                warning=True,
            )


def _check(meta: YamlMap, instance: YamlMap, sources: Mapping[str, SourceConfig], report: Report) -> None:
    """A position needs a file, or it must be a GTID set, whichever its source goes by."""
    name = meta.get("binlog-name")
    if isinstance(name, Scalar) and name.text and ("/" in name.text or not is_decimal(name.text.rpartition(".")[2])):
        expected = "a binlog file name such as `mysql-bin.000001`"
        report.add("config-bad-value", name.mark, name.path, expected=expected, value=repr(name.text[:60]))
    named = instance.get("source-id")
    source = sources.get(named.text) if isinstance(named, Scalar) else None
    if not _text(meta, "binlog-name") and not _text(meta, "binlog-gtid"):
        expected = "`binlog-name` and `binlog-pos`, or `binlog-gtid`"
        report.add("config-meta", meta.mark, meta.path, expected=expected)
    elif source is not None and not _text(meta, wanted := "binlog-gtid" if source.enable_gtid else "binlog-name"):
        state = "has" if source.enable_gtid else "does not have"
        report.add(
            "config-meta",
            instance.mark_of("meta"),
            meta.path,
            expected=f"`{wanted}`, because source `{source.source_id}` {state} `enable-gtid: true`",
        )


def _text(meta: YamlMap, key: str) -> str:
    value = meta.get(key)
    return value.text if isinstance(value, Scalar) and not value.null else ""
