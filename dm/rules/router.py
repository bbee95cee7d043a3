"""Routes at work: the target's name of a source table, and names that the target takes for one.

A route with a table pattern beats one without; more than one match on the level that counts is an error, never a
choice. A schema as a whole (CREATE DATABASE ...) is routed by schema-level routes only. Without a match a name stays
as it is.

The route that decides also extracts: the groups of its regular expressions, joined, from the names as the source
writes them. Where an expression does not match, DM writes an empty text, and rows of two tables become one; here that
is an error.

Names that a target with `lower_case_table_names` takes for one.

A source with case-sensitive names may have `Orders` and `orders`. To a target that folds names both are one table: rows
of the two would be mixed, and the DROP of one would take the other. Only a route merges tables, by giving them exactly
the same name; names that are equal but for their case are refused.

Such a target finds `Orders` in a statement, but lists it as `orders` (1), or as it was created (2, as TiDB's). So names
are looked up among those that a server lists only by `PresentNames`.

Tables of tools that change a table by a copy (gh-ost, pt-online-schema-change), recognised by their names.

Such a tool makes a table beside the real one, alters that, copies the rows, and gives it the real one's name in the
end. The copy is the *ghost* (`shadow-table-rules`), everything else that the tool makes is *trash*
(`trash-table-rules`): what the real table is called afterwards, journals, sentries.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

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


class FoldedNames:
    """The names that tables of the source have at a target that folds them."""

    def __init__(self, tables: Iterable[TableName], route: Callable[[TableName], TableName]) -> None:
        self._route = route
        # By the folded name: the target's names, and the tables of the source that have each, or are in that schema.
        self._known: dict[TableName, dict[TableName, dict[TableName, None]]] = {}
        for table in tables:
            self.add(table)

    def add(self, table: TableName) -> None:
        """One more table of the source."""
        for _, target in _names(table, self._route(table)):
            self._known.setdefault(folded(target), {}).setdefault(target, {})[table] = None

    def remove(self, table: TableName) -> None:
        """A table of the source that was added is not there any more."""
        for _, target in _names(table, self._route(table)):
            names = self._known.get(folded(target), {})
            names.get(target, {}).pop(table, None)
            if not names.get(target, True):
                del names[target]
            if not names:
                self._known.pop(folded(target), None)

    def demand_own(self, table: TableName, counts: Callable[[TableName], bool] = lambda other: True) -> None:
        """Raise DMError where a table that counts, or its schema, has this one's name but for the case."""
        for name, target in _names(table, self._route(table)):
            for other, owners in self._known.get(folded(target), {}).items():
                owner = None if other == target else next(filter(counts, owners), None)
                if owner is not None:
                    raise DMError(
                        "target-names-alike",
                        table=name,
                        target=target,
                        other_table=owner if other.table else TableName(owner.schema, ""),
                        other_target=other,
                    )


class PresentNames:
    """The tables that the target has; `folding` is its `lower_case_table_names`."""

    def __init__(self, tables: Iterable[TableName], folding: int) -> None:
        self._folding = folding
        self._present = {self._key(table): table for table in tables}

    def __contains__(self, name: TableName) -> bool:
        return self._key(name) in self._present

    def spelled(self, name: TableName) -> TableName:
        """The name as the target lists it, or would if it had the table."""
        return self._present.get(self._key(name), folded(name) if self._folding == 1 else name)

    def _key(self, name: TableName) -> TableName:
        return folded(name) if self._folding else name


def refuse_alike(tables: Collection[TableName], route: Callable[[TableName], TableName]) -> None:
    """Raise DMError where two of these tables of the source would be one at the target."""
    known = FoldedNames(tables, route)
    for table in tables:
        known.demand_own(table)


def _names(table: TableName, target: TableName) -> list[tuple[TableName, TableName]]:
    """The table's and its schema's name, at the source and at the target."""
    names = [(TableName(table.schema, ""), TableName(target.schema, ""))]
    return [*names, (table, target)] if table.table else names


def folded(name: TableName) -> TableName:
    """The name without its case."""
    return TableName(name.schema.lower(), name.table.lower())


TableKind = Literal["real", "ghost", "trash"]


class OnlineTables:
    """What a table is to an online DDL, by DM's rules: the first expression that matches the whole name decides."""

    def __init__(self, shadow: Iterable[str] = (), trash: Iterable[str] = ()) -> None:
        self._rules: list[tuple[TableKind, str]] = [("ghost", rule) for rule in shadow]
        self._rules += [("trash", rule) for rule in trash]
        self._expressions = [(kind, compile_regex(rule)) for kind, rule in self._rules]

    def kind(self, table: TableName) -> TableKind:
        """What the table is; everything is real without rules."""
        return self._look(table)[0]

    def real(self, table: TableName) -> TableName:
        """The table that a ghost or trash table belongs to; a real one belongs to itself."""
        return self._look(table)[1]

    def rules_of(self, kind: TableKind) -> tuple[str, ...]:
        """The expressions of ghost or trash tables, as written."""
        return tuple(rule for of, rule in self._rules if of == kind)

    def _look(self, table: TableName) -> tuple[TableKind, TableName]:
        for kind, expression in self._expressions:
            found = expression.fullmatch(table.table)
            if found is not None and found[1]:
                return kind, TableName(table.schema, found[1])
        return "real", table
