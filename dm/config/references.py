"""Names that point from one section of a task to another, and to source files.

They are checked on the tree of the file and not on the models: a wrong value somewhere leaves no model, and the user
is to see the mistyped reference in the same run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from dm.config.document import Scalar, YamlList, YamlMap, shown_key
from dm.config.problem import Report, did_you_mean, one_of_text
from dm.config.source import SourceConfig


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


def check_references(task: YamlMap, sources: Mapping[str, SourceConfig] | None, report: Report) -> None:
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
    instance: YamlMap, seen: set[str], sources: Mapping[str, SourceConfig] | None, report: Report
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


def _check_names(instance: YamlMap, kind: _Kind, section: YamlMap | None, used: _Used, report: Report) -> None:
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
