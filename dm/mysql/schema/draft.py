"""A table structure while operations are applied to it.

Operations act as in the servers, as far as a replicator must know: columns in order, indexes with the names that
servers choose, what dropping or renaming a column does to indexes. An operation that a server would refuse raises
`OperationRefused`; the caller says what that means.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.ident import TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.schema.charset import Collated
from dm.mysql.schema.column_definition import Definition
from dm.mysql.schema.index_definition import IndexDefinition, covers
from dm.mysql.schema.partition import Partitions
from dm.mysql.schema.table import Column, ForeignKey, Index, TableSchema
from dm.mysql.sql.operation import ColumnPlace
from dm.text import is_decimal

# Engines that parse a FOREIGN KEY clause, create its index and ignore the rest.
_WITHOUT_FOREIGN_KEYS = frozenset({"myisam", "aria", "memory", "csv", "archive", "blackhole", "mrg_myisam", "rocksdb"})


class OperationRefused(Exception):
    """An operation that the structure does not allow, in words."""


def without_unknown_charset(column: Column) -> Column:
    """A column of unknown character set has None."""
    return replace(column, charset=None, collation=None) if column.charset == "" else column


def renamed(schema: TableSchema, name: TableName) -> TableSchema:
    """The structure of a table after it got another name."""
    draft = TableDraft(schema)
    draft.rename_table(name)
    return draft.freeze()


class TableDraft:
    """A table structure that can be changed.

    A lenient draft lets indexes and constraints differ from what an operation expects. The tracker uses it: servers
    create and drop indexes for foreign keys by rules that no structure shows, and reading rows does not need them.
    """

    def __init__(self, schema: TableSchema, *, lenient: bool = False) -> None:
        self._lenient = lenient
        self.name = schema.name
        self.columns: list[Column] = list(schema.columns)
        self.indexes: list[Index] = list(schema.indexes)
        self.foreign_keys: list[ForeignKey] = list(schema.foreign_keys)
        self.checks: list[str] = list(schema.checks)
        self.check_words: list[tuple[str, ...]] = list(schema.check_words)
        self.check_words += [()] * (len(self.checks) - len(self.check_words))
        self.partitions = Partitions.of(schema)
        self.kept = schema.kept
        self.charset = schema.charset
        self.collation = schema.collation
        self.engine = schema.engine
        self.conversion: Collated | None = None  # of CONVERT TO CHARACTER SET

    def freeze(self) -> TableSchema:
        """The structure as it is now."""
        primary = next((index for index in self.indexes if index.kind == "primary"), None)
        keyed = {name.lower() for name in primary.columns} if primary is not None else set()
        return TableSchema(
            self.name,
            tuple(
                without_unknown_charset(
                    replace(column, nullable=False) if column.nullable and column.name.lower() in keyed else column
                )
                for column in self.columns
            ),
            tuple(self.indexes),
            () if self.engine in _WITHOUT_FOREIGN_KEYS else tuple(self.foreign_keys),
            self.charset or None,
            self.collation or None,
            self.engine,
            tuple(self.checks),
            self.partitions.names,
            tuple(self.check_words),
            tuple(name for name in self.kept if self.position(name) is None),
            self.partitions.placing,
        )

    def _refuse(self, why: str) -> None:
        """Refuse for a reason that concerns only indexes and constraints."""
        if not self._lenient:
            raise OperationRefused(why)

    @property
    def collated(self) -> Collated:
        """The default character set and collation of the columns."""
        return Collated(self.charset or "", self.collation or "")

    def position(self, name: str) -> int | None:
        """The place of a column."""
        wanted = name.lower()
        return next((at for at, column in enumerate(self.columns) if column.name.lower() == wanted), None)

    def _at(self, name: str) -> int:
        at = self.position(name)
        if at is None:
            raise OperationRefused(f"there is no column {name}")
        return at

    def _insert(self, column: Column, place: ColumnPlace, default: int) -> None:
        if place.first:
            default = 0
        elif place.after is not None:
            default = self._at(place.after) + 1
        self.columns.insert(default, column)

    def insert_column(self, column: Column, place: ColumnPlace) -> None:
        """A new column."""
        if self.position(column.name) is not None:
            raise OperationRefused(f"there is a column {column.name} already")
        self._insert(column, place, len(self.columns))

    def add_attached(self, definition: Definition, flavor: Flavor) -> None:
        """Add the indexes and constraints of a column's definition."""
        for index in definition.indexes():
            self.add_index(index)
        if definition.parent is not None:
            self.add_foreign_key(*definition.foreign_key())
        for name in definition.checks:
            self.add_column_check(name, (definition.column.name.lower(),), flavor)

    def drop_column(self, name: str, *, keep_indexes: bool = False) -> None:
        """DROP COLUMN: the column leaves its indexes, and an index without columns is dropped.

        A column of the same name that the same statement adds replaces it in them.
        """
        at = self._at(name)
        gone = self.columns.pop(at).name.lower()
        # The source accepted it, so a CHECK on this column names no other column and is dropped with it.
        for check in [name for name, words in zip(self.checks, self.check_words, strict=True) if gone in words]:
            self.drop_check(check)
        if keep_indexes:
            return
        kept = []
        for index in self.indexes:
            parts = tuple(part for part in index.parts if part.column is None or part.column.lower() != gone)
            if parts:
                kept.append(replace(index, parts=parts))
        self.indexes = kept

    def move_column(self, name: str, place: ColumnPlace) -> None:
        """FIRST or AFTER an existing column."""
        if not place.first and place.after is None:
            return
        at = self._at(name)
        if place.after is not None and place.after.lower() == name.lower():
            raise OperationRefused(f"column {name} cannot follow itself")
        column = self.columns.pop(at)
        self._insert(column, place, at)

    def replace_column(self, column: Column) -> None:
        """Another definition of a column that keeps its place."""
        self.columns[self._at(column.name)] = column

    def rename_columns(self, names: Sequence[tuple[str, str]]) -> None:
        """RENAME COLUMN, all at once: columns may swap their names."""
        places = [self._at(old) for old, _ in names]
        for at, (_, new) in zip(places, names, strict=True):
            self.columns[at] = replace(self.columns[at], name=new)
        if len({column.name.lower() for column in self.columns}) != len(self.columns):
            raise OperationRefused("two columns would have one name")
        translation = {old.lower(): new for old, new in names}

        def new_name(column: str) -> str:
            return translation.get(column.lower(), column)

        self.indexes = [
            replace(
                index,
                parts=tuple(
                    part if part.column is None else replace(part, column=new_name(part.column)) for part in index.parts
                ),
            )
            for index in self.indexes
        ]
        self.check_words = [tuple(translation.get(word, word).lower() for word in words) for words in self.check_words]
        self.foreign_keys = [
            replace(
                key,
                columns=tuple(new_name(column) for column in key.columns),
                parent_columns=tuple(new_name(column) for column in key.parent_columns)
                if key.parent == self.name
                else key.parent_columns,
            )
            for key in self.foreign_keys
        ]

    def index(self, name: str) -> Index | None:
        """The index of that name."""
        return next((index for index in self.indexes if index.name.lower() == name.lower()), None)

    def add_index(self, definition: IndexDefinition) -> None:
        """ADD INDEX of any kind."""
        for part in definition.parts:
            if part.column is not None:
                self._at(part.column)
        index = definition.named(index.name for index in self.indexes)
        there = self.index(index.name)
        if there is not None:
            self._refuse(f"there is an index {index.name} already")
            self.indexes.remove(there)
        if index.kind == "primary":
            self.indexes.insert(0, index)
        else:
            self.indexes.append(index)

    def add_foreign_key(self, key: ForeignKey, index: IndexDefinition) -> None:
        """ADD FOREIGN KEY, with the index that the servers make for it."""
        self.foreign_keys.append(self.named_key(key))
        if not any(covers(other, key.columns) for other in self.indexes):
            self.add_index(index)

    def named_key(self, key: ForeignKey) -> ForeignKey:
        """A foreign key under the name the server gives it if it has none."""
        if key.name:
            if any(other.name.lower() == key.name.lower() for other in self.foreign_keys):
                self._refuse(f"there is a foreign key {key.name} already")
            return key
        prefix = f"{self.name.table}_ibfk_"
        numbers = [
            int(other.name[len(prefix) :])
            for other in self.foreign_keys
            if other.name.startswith(prefix) and is_decimal(other.name[len(prefix) :])
        ]
        return replace(key, name=f"{prefix}{max(numbers, default=0) + 1}")

    def add_check(self, name: str | None, words: tuple[str, ...], flavor: Flavor) -> None:
        """ADD CHECK; servers number those without a name."""
        taken = {check.lower() for check in self.checks}
        if name is None:
            prefix = f"{self.name.table}_chk_" if dialect(flavor).names_checks_after_table else "CONSTRAINT_"
            name = next(free for number in range(1, 10000) if (free := f"{prefix}{number}").lower() not in taken)
        elif name.lower() in taken:
            self._refuse(f"there is a check {name} already")
        self.checks.append(name)
        self.check_words.append(words)

    def add_column_check(self, name: str | None, words: tuple[str, ...], flavor: Flavor) -> None:
        """A CHECK in a column's definition: in MariaDB it belongs to the column and has no name."""
        if not dialect(flavor).checks_belong_to_columns:
            self.add_check(name, words, flavor)

    def drop_column_check(self, name: str) -> None:
        """In MariaDB DROP CONSTRAINT of a column's name drops the CHECK of its own."""
        at = self.position(name)
        if at is not None:
            self.columns[at] = replace(self.columns[at], json_checked=False)

    def drop_index(self, name: str) -> None:
        """DROP INDEX."""
        index = self.index(name)
        if index is None:
            self._refuse(f"there is no index {name}")
        else:
            self.indexes.remove(index)

    def drop_foreign_key(self, name: str) -> None:
        """DROP FOREIGN KEY; its index stays."""
        keys = [key for key in self.foreign_keys if key.name.lower() != name.lower()]
        if len(keys) == len(self.foreign_keys):
            self._refuse(f"there is no foreign key {name}")
        self.foreign_keys = keys

    def drop_check(self, name: str) -> None:
        """DROP CHECK."""
        at = next((at for at, check in enumerate(self.checks) if check.lower() == name.lower()), None)
        if at is None:
            self._refuse(f"there is no check {name}")
        else:
            del self.checks[at], self.check_words[at]

    def drop_constraint(self, name: str) -> None:
        """DROP CONSTRAINT, of whatever kind."""
        if any(key.name.lower() == name.lower() for key in self.foreign_keys):
            self.drop_foreign_key(name)
        elif any(check.lower() == name.lower() for check in self.checks):
            self.drop_check(name)
        elif (index := self.index(name)) is not None and index.unique:
            self.indexes.remove(index)
        else:
            self._refuse(f"there is no constraint {name}")

    def has_constraint(self, name: str) -> bool:
        """Whether DROP CONSTRAINT of this name would drop something."""
        wanted = name.lower()
        index = self.index(name)
        return (
            any(key.name.lower() == wanted for key in self.foreign_keys)
            or any(check.lower() == wanted for check in self.checks)
            or (index is not None and index.unique)
        )

    def rename_indexes(self, names: Sequence[tuple[str, str]]) -> None:
        """RENAME INDEX, all at once: indexes may swap their names."""
        places: list[tuple[int, str]] = []
        for old, new in names:
            index = self.index(old)
            if index is None:
                self._refuse(f"there is no index {old}")
            else:
                places.append((self.indexes.index(index), new))
        for at, new in places:
            self.indexes[at] = replace(self.indexes[at], name=new)

    def hide_index(self, name: str, invisible: bool) -> None:
        """ALTER INDEX; it changes no rows, so an unknown index is no reason to refuse."""
        self.indexes = [
            replace(index, invisible=invisible) if index.name.lower() == name.lower() else index
            for index in self.indexes
        ]

    def rename_table(self, name: TableName) -> None:
        """RENAME: constraints that the server named after the table follow it."""
        old = self.name.table

        def new_name(constraint: str) -> str:
            for kind in ("_ibfk_", "_chk_"):
                if constraint.startswith(old + kind):
                    return name.table + constraint[len(old) :]
            return constraint

        self.checks = [new_name(check) for check in self.checks]
        self.foreign_keys = [
            replace(key, name=new_name(key.name), parent=name if key.parent == self.name else key.parent)
            for key in self.foreign_keys
        ]
        self.name = name
