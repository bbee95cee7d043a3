"""Routes at work: the target's name of a source table, and the columns that parts of its name go into.

A route with a table pattern beats one without; more than one match on the level that counts is an error, never a
choice. A schema as a whole (CREATE DATABASE ...) is routed by schema-level routes only. Without a match a name stays
as it is.

The route that decides also extracts: the groups of its regular expressions, joined, from the names as the source
writes them. Where an expression does not match, DM writes an empty text, and rows of two tables become one; here that
is an error.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from dm.config.pattern import Match, matcher
from dm.config.regex import compile_regex
from dm.config.rules import Extraction, RouteRule
from dm.errors import DMError
from dm.ident import Ident, TableName


@dataclass(frozen=True, slots=True)
class ExtractedColumn:
    """A column that the target has and the source has not, and its value for all rows of one source table."""

    column: str
    value: str


def table_missing(table: TableName, target: TableName, extracted: Sequence[ExtractedColumn]) -> DMError:
    """The error of a target table that a person has to create, since the source's has not all its columns."""
    columns = ", ".join(Ident(each.column).sql for each in extracted)
    return DMError("extract-table-missing", table=table, target=target, target_sql=target.sql, columns=columns)


@dataclass(frozen=True, slots=True)
class _Route:
    schema: Match
    table: Match | None  # None: for the schema as a whole
    rule: RouteRule
    extractions: tuple[tuple[Extraction, re.Pattern[str]], ...]

    @classmethod
    def of(cls, rule: RouteRule, *, case_sensitive: bool) -> _Route:
        return cls(
            matcher(rule.schema_pattern, case_sensitive=case_sensitive),
            matcher(rule.table_pattern, case_sensitive=case_sensitive) if rule.table_pattern else None,
            rule,
            tuple((extraction, compile_regex(extraction.regexp)) for extraction in rule.extractions),
        )

    def matches(self, name: TableName) -> bool:
        return self.schema(name.schema) and (self.table is None or self.table(name.table))

    @property
    def shown(self) -> str:
        return self.rule.name or f"{self.rule.schema_pattern}.{self.rule.table_pattern or '*'}"


class Router:
    """Maps source names to target names."""

    def __init__(self, rules: Iterable[RouteRule], *, case_sensitive: bool, source_id: str = "") -> None:
        routes = [_Route.of(rule, case_sensitive=case_sensitive) for rule in rules]
        self._table_routes = [route for route in routes if route.table is not None]
        self._schema_routes = [route for route in routes if route.table is None]
        self._source_id = source_id

    def route(self, name: TableName) -> TableName:
        """The target's name; raises DMError `route-ambiguous`."""
        route = self._deciding(name)
        if route is None:
            return name
        rule = route.rule
        return TableName(rule.target_schema, (rule.target_table or name.table) if name.table else "")

    def extracted(self, name: TableName) -> tuple[ExtractedColumn, ...]:
        """The columns that parts of the table's name go into; raises DMError `route-extract-unmatched`."""
        route = self._deciding(name) if name.table else None
        if route is None:
            return ()
        parts = {"table": name.table, "schema": name.schema, "source": self._source_id}
        columns = []
        for extraction, expression in route.extractions:
            found = expression.search(parts[extraction.part])
            if found is None:
                raise DMError(
                    "route-extract-unmatched",
                    route=route.shown,
                    part=extraction.part,
                    regexp=extraction.regexp,
                    value=parts[extraction.part],
                    table=name,
                )
            columns.append(ExtractedColumn(extraction.column, "".join(group or "" for group in found.groups())))
        return tuple(columns)

    def _deciding(self, name: TableName) -> _Route | None:
        matching = [route for route in self._table_routes if route.matches(name)] if name.table else []
        if not matching:
            matching = [route for route in self._schema_routes if route.matches(name)]
        if len(matching) > 1:
            raise DMError("route-ambiguous", table=name, rules=", ".join(route.shown for route in matching))
        return matching[0] if matching else None
