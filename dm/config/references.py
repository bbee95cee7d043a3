"""Names that point from one section of a task to another, and to source files.

They are checked on the tree of the file and not on the models: a wrong value somewhere leaves no model, and the user
is to see the mistyped reference in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, ClassVar

from dm.config.document import Scalar, YamlList, YamlMap, shown_key
from dm.config.problem import ProblemReport, did_you_mean, one_of_text
from dm.config.scalar import Text, whole
from dm.config.section import Section
from dm.config.source import GtidText, SourceConfig
from dm.text import is_decimal


@dataclass(frozen=True, slots=True)
class _Kind:
    section: str  # where the name is defined
    keys: tuple[str, ...]  # keys of an instance that name it
    unknown: str
    many: bool = False  # whether the keys hold lists
    what: str = ""  # how an unreferenced one is called; empty: DM does not check it and neither do we


_KINDS = (
    _Kind("routes", ("route-rules",), "config-route-unknown", True, "route"),
    _Kind("filters", ("filter-rules",), "config-filter-unknown", True, "filter"),
    _Kind("expression-filter", ("expression-filters",), "config-expression-unknown", True, "expression filter"),
    _Kind("block-allow-list", ("block-allow-list", "black-white-list"), "config-list-unknown"),
    _Kind("mydumpers", ("mydumper-config-name",), "config-dumper-unknown", what="mydumper configuration"),
    _Kind("loaders", ("loader-config-name",), "config-loader-unknown", what="loader configuration"),
    _Kind("syncers", ("syncer-config-name",), "config-syncer-unknown", what="syncer configuration"),
    _Kind(
        "validators",
        ("validator-config-name", "continuous-validator-config-name"),
        "config-validator-unknown",
        what="validator configuration",
    ),
)
_OLD_SECTIONS = {"block-allow-list": "black-white-list"}


@dataclass(slots=True)
class _Used:
    names: dict[str, set[str]] = field(default_factory=lambda: {kind.section: set() for kind in _KINDS})


def check_references(task: YamlMap, sources: Mapping[str, SourceConfig] | None, report: ProblemReport) -> None:
    """Record unknown, repeated and unreferenced names; without `sources`, source names are taken as they are."""
    instances = task.get("mysql-instances")
    if not isinstance(instances, YamlList):
        return
    if not instances:
        report.add(
            "config-no-instances", task.mark_of("mysql-instances"), "mysql-instances", expected="at least one source"
        )
        return
    used = _Used()
    seen: set[str] = set()
    for instance in instances:
        if isinstance(instance, YamlMap):
            _check_source(instance, seen, sources, report)
            for kind in _KINDS:
                _check_names(instance, kind, _defined(task, kind.section), used, report)
    for kind in _KINDS:
        section = _defined(task, kind.section)
        for name in section or ():
            if kind.what and section is not None and name not in used.names[kind.section]:
                mark, path = section.mark_of(name), section.path_of(shown_key(name))
                suggestion = f"name it in `{kind.keys[0]}`, or remove it"
                report.add(
                    "config-unreferenced",
                    mark,
                    path,
                    suggestion=suggestion,
                    what=kind.what,
                    value=repr(shown_key(name)),
                )


def _defined(task: YamlMap, section: str) -> YamlMap | None:
    found = task.get(section)
    if not isinstance(found, YamlMap):
        found = task.get(_OLD_SECTIONS.get(section, section))
    return found if isinstance(found, YamlMap) else None


def _check_source(
    instance: YamlMap, seen: set[str], sources: Mapping[str, SourceConfig] | None, report: ProblemReport
) -> None:
    named = instance.get("source-id")
    if not isinstance(named, Scalar) or named.null:
        return
    value = repr(named.text[:60])
    if named.text in seen:
        report.add("config-same-source", named.mark, named.path, value=value)
    seen.add(named.text)
    if sources is not None and named.text not in sources:
        expected = f"one of {one_of_text(sorted(sources))}" if sources else ""
        suggestion = did_you_mean(named.text, sources) or "create it with `dmctl operate-source create <file>`"
        report.add(
            "config-source-unknown", named.mark, named.path, expected=expected, suggestion=suggestion, value=value
        )


def _check_names(instance: YamlMap, kind: _Kind, section: YamlMap | None, used: _Used, report: ProblemReport) -> None:
    known = [] if section is None else list(section)
    for key in kind.keys:
        seen: set[str] = set()
        value = instance.get(key)
        if isinstance(value, Scalar) == kind.many:
            continue  # a word instead of a list: the models say so
        for named in _scalars(value):
            if named.null or not named.text:
                continue
            shown = repr(named.text[:60])
            if named.text in seen:
                report.add("config-reference-twice", named.mark, named.path, value=shown)
            elif named.text not in known:
                suggestion = did_you_mean(named.text, known) or f"define it under `{kind.section}`"
                report.add(kind.unknown, named.mark, named.path, suggestion=suggestion, value=shown)
            seen.add(named.text)
            used.names[kind.section].add(named.text)


def _scalars(value: object) -> Iterator[Scalar]:
    if isinstance(value, Scalar):
        yield value
    elif isinstance(value, YamlList):
        yield from (item for item in value if isinstance(item, Scalar))


# Where a task starts that has no checkpoint: `meta` of an instance, and whether it fits the task and its source.

_USING = ("incremental", "load&sync")


class StartPoint(Section):
    """Where an incremental task starts that has no checkpoint."""

    place: ClassVar = "under `meta`"
    binlog_name: Text = ""
    binlog_pos: Annotated[int, whole(0)] = 4
    binlog_gtid: GtidText = ""


def check_start_points(task: YamlMap, sources: Mapping[str, SourceConfig] | None, report: ProblemReport) -> None:
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


def _check(meta: YamlMap, instance: YamlMap, sources: Mapping[str, SourceConfig], report: ProblemReport) -> None:
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
