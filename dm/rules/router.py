"""Routes at work: the target's name of a source table, and names that the target takes for one.

A route with a table pattern beats one without; more than one match on the level that counts is an error, never a
choice. A schema as a whole (CREATE DATABASE ...) is routed by schema-level routes only. Without a match a name stays
as it is.

The route that decides also extracts: the groups of its regular expressions, joined, from the names as the source
writes them. Where an expression does not match, DM writes an empty text, and rows of two tables become one; here that
is an error.

A route with `scatter` is the inverse: it sends each row of one source table to the table that the row's columns name,
without these columns. Such a table has no one name at the target, so `route` is an error that says so: whatever has no
rule of its own for such tables refuses them by name. What has one asks for `scattered`, or for `destinations`.

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
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
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


@dataclass(frozen=True, slots=True)
class Scattering:
    """The tables that rows of one source table go to, by what these columns hold."""

    columns: tuple[str, ...]  # in lower case
    tables: Mapping[tuple[str, ...], TableName]

    @classmethod
    def of(cls, rule: RouteRule) -> Scattering:
        """As a route says it."""
        columns = tuple(sorted(column.lower() for column in rule.scatter[0].columns))
        tables = {}
        for one in rule.scatter:
            values = {column.lower(): value for column, value in one.columns.items()}
            name = TableName(one.target_schema or rule.target_schema, one.target_table)
            tables[tuple(values[column] for column in columns)] = name
        return cls(columns, tables)


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
        """The target's name; raises DMError `route-ambiguous`, or `table-scattered` for one that has several."""
        route = self._deciding(name)
        if route is None:
            return name
        rule = route.rule
        if rule.scatter and name.table:
            raise DMError("table-scattered", table=name, route=route.shown)
        return TableName(rule.target_schema, (rule.target_table or name.table) if name.table else "")

    def scattered(self, name: TableName) -> Scattering | None:
        """The tables for the rows of this one; None where all go to one table."""
        route = self._deciding(name) if name.table else None
        return None if route is None or not route.rule.scatter else Scattering.of(route.rule)

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
            columns.append(ExtractedColumn(extraction.column, _joined(found)))
        return tuple(columns)

    def names_source(self, name: TableName, others: Iterable[str]) -> bool:
        """Whether a column says of a row of this table that it is of this source and of none of the others."""
        route = self._deciding(name) if name.table else None
        for extraction, expression in () if route is None else route.extractions:
            if extraction.part == "source":
                ours, *theirs = (expression.search(source) for source in (self._source_id, *others))
                return ours is not None and all(_joined(ours) != _joined(found) for found in theirs if found)
        return False

    def _deciding(self, name: TableName) -> _Route | None:
        matching = [route for route in self._table_routes if route.matches(name)] if name.table else []
        if not matching:
            matching = [route for route in self._schema_routes if route.matches(name)]
        if len(matching) > 1:
            raise DMError("route-ambiguous", table=name, rules=", ".join(route.shown for route in matching))
        return matching[0] if matching else None


Destinations = Callable[[TableName], Collection[TableName]]
"""The target's names of a source table, or of a schema."""


class FoldedNames:
    """The names that tables of the source have at a target that folds them."""

    def __init__(self, tables: Iterable[TableName], destinations: Destinations) -> None:
        self._destinations = destinations
        # By the folded name: the target's names, and the tables of the source that have each, or are in that schema.
        self._known: dict[TableName, dict[TableName, dict[TableName, None]]] = {}
        for table in tables:
            self.add(table)

    def add(self, table: TableName) -> None:
        """One more table of the source."""
        for _, target in self._names(table):
            self._known.setdefault(folded(target), {}).setdefault(target, {})[table] = None

    def remove(self, table: TableName) -> None:
        """A table of the source that was added is not there any more."""
        for _, target in self._names(table):
            names = self._known.get(folded(target), {})
            names.get(target, {}).pop(table, None)
            if not names.get(target, True):
                del names[target]
            if not names:
                self._known.pop(folded(target), None)

    def _names(self, table: TableName) -> list[tuple[TableName, TableName]]:
        """The table's names and those of its schema, at the source and at the target."""
        return [pair for target in self._destinations(table) for pair in _names(table, target)]

    def demand_own(self, table: TableName, counts: Callable[[TableName], bool] = lambda other: True) -> None:
        """Raise DMError where a table that counts, or its schema, has this one's name but for the case."""
        for name, target in self._names(table):
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


def refuse_alike(tables: Collection[TableName], destinations: Destinations) -> None:
    """Raise DMError where two of these tables of the source would be one at the target."""
    known = FoldedNames(tables, destinations)
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


def _joined(found: re.Match[str]) -> str:
    return "".join(group or "" for group in found.groups())
