"""Rules that contradict each other: two of one kind with the same pattern.

DM drops the second binlog event filter without a word, and finds out about the second route when a table matches both.
Here both are problems of the file. A source's filters are rules of every task on it, so they count too. Checked on the
tree, like references.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dm.config.document import Scalar, YamlList, YamlMap, shown_key
from dm.config.problem import Report
from dm.config.source import SourceConfig

_EVENT_FILTER = "config-event-filter"
_ROUTE = "config-route"


def check_rule_sets(tree: YamlMap, report: Report, sources: Mapping[str, SourceConfig] | None = None) -> None:
    """Record every rule whose pattern another rule of the same instance (or source) has."""
    instances = tree.get("mysql-instances")
    filters, routes = tree.get("filters"), tree.get("routes")
    sensitive = _is_true(tree.get("case-sensitive"))
    if isinstance(filters, YamlList):  # a source file
        rules = ((rule.path, rule) for rule in filters if isinstance(rule, YamlMap))
        _check(rules, _EVENT_FILTER, sensitive, report, {})
    for instance in instances if isinstance(instances, YamlList) else ():
        if isinstance(instance, YamlMap):
            named = instance.get("source-id")
            source = (sources or {}).get(named.text) if isinstance(named, Scalar) else None
            case = sensitive or (source is not None and source.case_sensitive is True)
            taken = {} if source is None else _filters_of(source, case)
            _check(_named(instance.get("filter-rules"), filters), _EVENT_FILTER, case, report, taken)
            _check(_named(instance.get("route-rules"), routes), _ROUTE, case, report, {})


def _filters_of(source: SourceConfig, sensitive: bool) -> dict[tuple[str, str], str]:
    """The patterns of the source's own filters, each with what a message calls the filter."""
    found: dict[tuple[str, str], str] = {}
    for number, rule in enumerate(source.filters):
        pattern = (_folded(rule.schema_pattern, sensitive), _folded(rule.table_pattern, sensitive))
        found[pattern] = f"filters[{number}] of source {source.source_id}"
    return found


def _named(names: object, section: object) -> Iterable[tuple[str, YamlMap]]:
    if not isinstance(names, YamlList) or not isinstance(section, YamlMap):
        return
    done: set[str] = set()
    for name in names:
        rule = section.get(name.text) if isinstance(name, Scalar) else None
        if isinstance(rule, YamlMap) and name.text not in done:
            done.add(name.text)
            yield shown_key(name.text), rule


def _check(
    rules: Iterable[tuple[str, YamlMap]], kind: str, sensitive: bool, report: Report, taken: dict[tuple[str, str], str]
) -> None:
    seen = dict(taken)
    for name, rule in rules:
        pattern = (_text(rule.get("schema-pattern"), sensitive), _text(rule.get("table-pattern"), sensitive))
        if not pattern[0]:
            continue
        if pattern in seen:
            report.add(
                kind,
                rule.mark_of("schema-pattern"),
                rule.path,
                why=f"`{seen[pattern]}` has the same patterns",
                suggestion="put both into one rule" if kind == _EVENT_FILTER else "remove one of them",
            )
        else:
            seen[pattern] = name


def _text(value: object, sensitive: bool) -> str:
    if not isinstance(value, Scalar) or value.null:
        return ""
    return _folded(value.text, sensitive)


def _folded(text: str, sensitive: bool) -> str:
    return text if sensitive else text.lower()


def _is_true(value: object) -> bool:
    return isinstance(value, Scalar) and value.text.lower() in ("true", "yes", "on", "y")
