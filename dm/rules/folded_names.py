"""Names that a target with `lower_case_table_names` takes for one.

A source with case-sensitive names may have `Orders` and `orders`. To a target that folds names both are one table: rows
of the two would be mixed, and the DROP of one would take the other. Only a route merges tables, by giving them exactly
the same name; names that are equal but for their case are refused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from dm.errors import DMError
from dm.ident import TableName


class FoldedNames:
    """The names that tables of the source have at a target that folds them."""

    def __init__(self, tables: Iterable[TableName], route: Callable[[TableName], TableName]) -> None:
        self._route = route
        self._known: dict[TableName, dict[TableName, TableName]] = {}  # by folded name: target's names, and whose
        for table in tables:
            self.add(table)

    def add(self, table: TableName) -> None:
        """One more table of the source."""
        for name, target in _names(table, self._route(table)):
            self._known.setdefault(folded(target), {}).setdefault(target, name)

    def demand_own(self, table: TableName) -> None:
        """Raise DMError where another table or schema of the source has this one's name but for the case."""
        for name, target in _names(table, self._route(table)):
            for other, owner in self._known.get(folded(target), {}).items():
                if other != target:
                    raise DMError(
                        "target-names-alike", table=name, target=target, other_table=owner, other_target=other
                    )


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
