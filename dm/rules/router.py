"""Routes at work: the target's name of a source table.

A route with a table pattern beats one without; more than one match on the level that counts is an error, never a
choice. A schema as a whole (CREATE DATABASE ...) is routed by schema-level routes only. Without a match a name stays
as it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from dm.config.pattern import Match, matcher
from dm.config.route import RouteRule
from dm.errors import DMError
from dm.ident import TableName


@dataclass(frozen=True, slots=True)
class _Route:
    schema: Match
    table: Match | None  # None: for the schema as a whole
    rule: RouteRule

    def matches(self, name: TableName) -> bool:
        return self.schema(name.schema) and (self.table is None or self.table(name.table))


class Router:
    """Maps source names to target names."""

    def __init__(self, rules: Iterable[RouteRule], *, case_sensitive: bool) -> None:
        routes = [
            _Route(
                matcher(rule.schema_pattern, case_sensitive=case_sensitive),
                matcher(rule.table_pattern, case_sensitive=case_sensitive) if rule.table_pattern else None,
                rule,
            )
            for rule in rules
        ]
        self._table_routes = [route for route in routes if route.table is not None]
        self._schema_routes = [route for route in routes if route.table is None]

    def route(self, name: TableName) -> TableName:
        """The target's name; raises DMError `route-ambiguous`."""
        matching = [route for route in self._table_routes if route.matches(name)] if name.table else []
        if not matching:
            matching = [route for route in self._schema_routes if route.matches(name)]
        if len(matching) > 1:
            raise DMError("route-ambiguous", table=name, rules=", ".join(_shown(route.rule) for route in matching))
        if not matching:
            return name
        rule = matching[0].rule
        return TableName(rule.target_schema, (rule.target_table or name.table) if name.table else "")


def _shown(rule: RouteRule) -> str:
    return rule.name or f"{rule.schema_pattern}.{rule.table_pattern or '*'}"
