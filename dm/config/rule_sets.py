"""What rules say taken together, and what they hardly mean: two of one kind with the same pattern, a forgotten `~`.

DM drops the second binlog event filter without a word, and finds out about the second route when a table matches both.
Here both are problems of the file. A source's filters are rules of every task on it, so they count too. A pattern such
as `^log.*` is a name with these signs in it, to DM and here; a warning says so. Checked on the tree, like references.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from dm.config.document import Scalar, YamlList, YamlMap, shown_key
from dm.config.problem import ProblemReport
from dm.config.source import SourceConfig

_REGEX_SIGNS = re.compile(r"\.[*+]|\\[dDwWsSb]|^\^|\$$|\(.*[|)]|\]\+")
_LISTS = {
    "do-dbs": (),
    "ignore-dbs": (),
    "do-tables": ("db-name", "tbl-name"),
    "ignore-tables": ("db-name", "tbl-name"),
}
_EVENT_FILTER = "config-event-filter"
_ROUTE = "config-route"
_PLAIN = "config-plain-pattern"


def check_rule_sets(tree: YamlMap, report: ProblemReport, sources: Mapping[str, SourceConfig] | None = None) -> None:
    """Record every rule whose pattern another rule of the same instance (or source) has."""
    instances = tree.get("mysql-instances")
    filters, routes = tree.get("filters"), tree.get("routes")
    sensitive = _is_true(tree.get("case-sensitive"))
    for pattern, regex in _patterns(tree):
        if not pattern.text.startswith("~") and _REGEX_SIGNS.search(pattern.text):
            hint = f"begin it with `~` if it is one: `~{pattern.text}`" if regex else "use `*`, `?` and `[...]`"
            shown = pattern.text[:60]
            report.add(_PLAIN, pattern.mark, pattern.path, pattern=shown, suggestion=hint, warning=True)
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


def _patterns(tree: YamlMap) -> Iterator[tuple[Scalar, bool]]:
    """Every pattern of the file, and whether it might be a regular expression."""
    for rule in _rules(tree.get("routes")):
        yield from ((pattern, True) for pattern in _scalars(rule, "schema-pattern", "table-pattern"))
    for rule in _rules(tree.get("filters")):
        yield from ((pattern, False) for pattern in _scalars(rule, "schema-pattern", "table-pattern"))
    for section in ("block-allow-list", "black-white-list"):
        for lists in _rules(tree.get(section)):
            for key, keys in _LISTS.items():
                entries = lists.get(key)
                for entry in entries if isinstance(entries, YamlList) else ():
                    names = _scalars(entry, *keys) if isinstance(entry, YamlMap) else [entry]
                    yield from ((name, True) for name in names if isinstance(name, Scalar))


def _rules(section: object) -> list[YamlMap]:
    rules = section.values() if isinstance(section, YamlMap) else section if isinstance(section, YamlList) else ()
    return [rule for rule in rules if isinstance(rule, YamlMap)]


def _scalars(rule: YamlMap, *keys: str) -> list[Scalar]:
    return [value for key in keys if isinstance(value := rule.get(key), Scalar)]


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
    rules: Iterable[tuple[str, YamlMap]],
    kind: str,
    sensitive: bool,
    report: ProblemReport,
    taken: dict[tuple[str, str], str],
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
