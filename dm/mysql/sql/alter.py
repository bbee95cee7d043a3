"""The operations of an ALTER TABLE.

Each operation has a `source`: text that, after `ALTER TABLE t`, does this operation alone. It is cut out of the
statement; only `ADD COLUMN (a .., b ..)` gets its leading words repeated. Options that concern the whole statement
(ALGORITHM, LOCK, VALIDATION) are no operations: every piece gets them.

Commas separate operations, with exceptions in both grammars: ORDER BY takes a list of columns, and an operation on
partitions must be alone (MySQL sql/sql_yacc.yy, alter_table_stmt; MariaDB the same).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.mysql.sql.cursor import Clause, Cursor, NameRef, split_at_commas
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDefault,
    AlterIndex,
    AlterOperation,
    AlterVisibility,
    ChangeColumn,
    ColumnPlace,
    ConvertCharset,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    ExchangePartition,
    ModifyColumn,
    OtherAlter,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
    is_table_option,
    read_table_options,
)


@dataclass(frozen=True, slots=True)
class Specification:
    """One operation, its own text, and the table that the statement was about at that point."""

    operation: AlterOperation | RenameTable
    source: str


@dataclass(frozen=True, slots=True)
class Alteration:
    """Everything after `ALTER TABLE t`."""

    specifications: tuple[Specification, ...]
    whole_options: tuple[str, ...]  # ALGORITHM, LOCK, VALIDATION as written
    partitioned: bool  # a PARTITION BY or REMOVE PARTITIONING follows the operations: they must stay together


_INDEX_WORDS: Final = ("INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "PRIMARY")
_PARTITION_VERBS: Final = frozenset(
    {
        "ADD", "DROP", "COALESCE", "REORGANIZE", "EXCHANGE", "ANALYZE", "CHECK", "OPTIMIZE", "REBUILD", "REPAIR",
        "TRUNCATE", "DISCARD", "IMPORT", "CONVERT", "SECONDARY_LOAD", "SECONDARY_UNLOAD",
    },
)  # fmt: skip


def definition_kind(cursor: Cursor) -> str:
    """The kind of the next table element: 'index', 'foreign key', 'check', 'period' or 'column'."""
    ahead = 0
    if cursor.word() == "CONSTRAINT":
        # The name is optional: CONSTRAINT CHECK (..), CONSTRAINT UNIQUE (..).
        ahead = 1 if cursor.word(1) in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK") else 2
        if cursor.word(1) == "IF" and cursor.word(2) == "NOT" and cursor.word(3) == "EXISTS":
            ahead = 5  # MariaDB's CONSTRAINT IF NOT EXISTS name
    word = cursor.word(ahead)
    if word == "FOREIGN":
        return "foreign key"
    if word == "CHECK":
        return "check"
    if word in _INDEX_WORDS or (word == "VECTOR" and cursor.word(ahead + 1) in ("INDEX", "KEY")):
        return "index"
    if word == "PERIOD" and cursor.word(ahead + 1) == "FOR":
        return "period"
    return "column"


def _is_primary(cursor: Cursor) -> bool:
    return "PRIMARY" in (cursor.word(), cursor.word(1), cursor.word(2))


def _place(definition: Clause) -> tuple[Clause, ColumnPlace]:
    """Remove FIRST or AFTER column from the end of a column definition."""
    tokens = definition.tokens
    # This check comes first: a column may be named first.
    if len(tokens) > 2 and tokens[-2].upper == "AFTER" and tokens[-1].kind in ("word", "name"):
        return Clause(definition.text, tokens[:-2]), ColumnPlace(after=tokens[-1].text)
    if len(tokens) > 1 and tokens[-1].upper == "FIRST":
        return Clause(definition.text, tokens[:-1]), ColumnPlace(first=True)
    return definition, ColumnPlace()


def _definition(cursor: Cursor) -> tuple[Clause, ColumnPlace]:
    if cursor.done:
        cursor.fail("expected a column definition")
    return _place(cursor.rest())


def _if_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "EXISTS")


def _if_not_exists(cursor: Cursor) -> bool:
    return cursor.accept("IF", "NOT", "EXISTS")


def _table_element(element: Clause, cursor: Cursor, names: list[NameRef], subject: NameRef) -> AlterOperation:
    """An element of a table body, as an operation that adds it."""
    inner = cursor.within(element)
    kind = definition_kind(inner)
    if kind == "column":
        if_not_exists = _if_not_exists(inner)
        column = inner.column()
        definition, place = _definition(inner)
        names += references(definition, cursor, subject)
        return AddColumn(column, definition, place, if_not_exists)
    if kind == "period":
        inner.fail("application-time periods are not supported")
    if_not_exists = any(
        inner.word(at) == "IF" and inner.word(at + 1) == "NOT" and inner.word(at + 2) == "EXISTS" for at in range(5)
    )
    if kind == "index":
        return AddIndex(element, _is_primary(inner), None, if_not_exists)
    if kind == "foreign key":
        names += references(element, cursor, subject)
        return AddForeignKey(element, if_not_exists)
    return AddCheck(element, if_not_exists)


def references(clause: Clause, cursor: Cursor, subject: NameRef) -> list[NameRef]:
    """The parent tables that a clause names; REFERENCES is a reserved word, so nothing else is spelled like it.

    A parent without a schema is in the child's schema, whatever the session's is (seen in both servers).
    """
    found = []
    inner = cursor.within(clause).using(subject.name.schema)
    while not inner.done:
        if inner.take().upper == "REFERENCES":
            found.append(inner.table(foreign=True))
    return found


def _add(cursor: Cursor, names: list[NameRef], subject: NameRef) -> list[Specification]:
    """The text after ADD; the part of the statement is one operation, or a list of columns in parentheses."""
    source = cursor.clause.source
    column_word = cursor.accept("COLUMN")
    start = cursor.at
    if_not_exists = _if_not_exists(cursor)
    if cursor.word() == "(":
        group = cursor.skip_group()
        if not cursor.done:
            cursor.fail("a list of columns has no place")
        prefix = "ADD COLUMN IF NOT EXISTS" if if_not_exists else "ADD COLUMN"
        specifications = []
        for element in split_at_commas(group):
            operation = _table_element(element, cursor, names, subject)
            if isinstance(operation, AddColumn):
                operation = AddColumn(operation.column, operation.definition, operation.place, if_not_exists)
                specifications.append(Specification(operation, f"{prefix} {element.source}"))
            else:
                specifications.append(Specification(operation, f"ADD {element.source}"))
        return specifications
    cursor.at = start
    if cursor.sees("SYSTEM", "VERSIONING"):
        cursor.fail("system-versioned tables are not supported")
    element = cursor.rest()
    if column_word:
        inner = cursor.within(element)
        if_not_exists = _if_not_exists(inner)
        column = inner.column()
        definition, place = _definition(inner)
        names += references(definition, cursor, subject)
        return [Specification(AddColumn(column, definition, place, if_not_exists), source)]
    return [Specification(_table_element(element, cursor, names, subject), source)]


def _drop(cursor: Cursor) -> AlterOperation:
    operation: AlterOperation
    if cursor.accept("PRIMARY", "KEY"):
        operation = DropPrimaryKey()
    elif cursor.accept_any("INDEX", "KEY"):
        if_exists = _if_exists(cursor)
        operation = DropIndex(cursor.name(), if_exists)
    elif cursor.accept("FOREIGN", "KEY"):
        if_exists = _if_exists(cursor)
        operation = DropForeignKey(cursor.name(), if_exists)
    elif cursor.accept("CONSTRAINT", "PRIMARY", "KEY"):
        operation = DropPrimaryKey()
    elif word := cursor.accept_any("CONSTRAINT", "CHECK"):
        if_exists = _if_exists(cursor)
        name = cursor.name()
        # In MariaDB and MySQL the primary key's constraint is named PRIMARY.
        operation = (
            DropPrimaryKey(if_exists) if name.upper() == "PRIMARY" else DropConstraint(name, if_exists, word == "CHECK")
        )
    elif cursor.sees("SYSTEM", "VERSIONING") or cursor.sees("PERIOD", "FOR"):
        cursor.fail("system-versioned tables are not supported")
    else:
        cursor.accept("COLUMN")
        if_exists = _if_exists(cursor)
        operation = DropColumn(cursor.column(), if_exists)
        cursor.accept_any("RESTRICT", "CASCADE")
    return operation


def _alter(cursor: Cursor) -> AlterOperation:
    if cursor.word() in ("CHECK", "CONSTRAINT"):
        return OtherAlter(cursor.rest())
    if cursor.accept_any("INDEX", "KEY"):
        if_exists = _if_exists(cursor)
        index = cursor.name()
        if cursor.accept("NOT", "IGNORED"):
            return AlterIndex(index, False, if_exists)
        word = cursor.accept_any("VISIBLE", "INVISIBLE", "IGNORED")
        if not word:
            cursor.fail("expected VISIBLE, INVISIBLE, IGNORED or NOT IGNORED")
        return AlterIndex(index, word != "VISIBLE", if_exists)
    cursor.accept("COLUMN")
    if_exists = _if_exists(cursor)
    column = cursor.column()
    if cursor.accept("DROP", "DEFAULT"):
        return AlterDefault(column, Clause(cursor.clause.text), if_exists)
    cursor.expect("SET")
    if cursor.accept("DEFAULT"):
        default = cursor.rest()
        return AlterDefault(column, default, if_exists)
    word = cursor.accept_any("VISIBLE", "INVISIBLE")
    if not word:
        cursor.fail("expected DEFAULT, VISIBLE or INVISIBLE")
    return AlterVisibility(column, word == "INVISIBLE")


def _rename(cursor: Cursor, names: list[NameRef], subject: NameRef) -> AlterOperation | RenameTable:
    if cursor.accept("COLUMN"):
        if_exists = _if_exists(cursor)
        old = cursor.name()
        cursor.expect("TO")
        return RenameColumn(old, cursor.name(), if_exists)
    if cursor.accept_any("INDEX", "KEY"):
        if_exists = _if_exists(cursor)
        old = cursor.name()
        cursor.expect("TO")
        return RenameIndex(old, cursor.name(), if_exists)
    cursor.accept_any("TO", "AS", "=")
    target = cursor.table()
    names.append(target)
    return RenameTable(((subject.name, target.name),))


def _specification(part: Clause, cursor: Cursor, names: list[NameRef], subject: NameRef) -> list[Specification]:
    inner = cursor.within(part)
    source = part.source
    operation: AlterOperation | RenameTable
    word = inner.word()
    if word == "ADD":
        inner.accept("ADD")
        return _add(inner, names, subject)
    if word == "DROP":
        inner.accept("DROP")
        operation = _drop(inner)
    elif word == "ALTER":
        inner.accept("ALTER")
        operation = _alter(inner)
    elif inner.accept("RENAME"):
        operation = _rename(inner, names, subject)
    elif inner.accept("MODIFY"):
        inner.accept("COLUMN")
        if_exists = _if_exists(inner)
        column = inner.column()
        definition, place = _definition(inner)
        names += references(definition, cursor, subject)
        operation = ModifyColumn(column, definition, place, if_exists)
    elif inner.accept("CHANGE"):
        inner.accept("COLUMN")
        if_exists = _if_exists(inner)
        column, name = inner.column(), inner.column()
        definition, place = _definition(inner)
        names += references(definition, cursor, subject)
        operation = ChangeColumn(column, name, definition, place, if_exists)
    elif inner.sees("CONVERT", "TO"):
        inner.at = 2
        operation = ConvertCharset(inner.rest())
    elif inner.sees("ORDER", "BY") or word in (
        "ENABLE",
        "DISABLE",
        "DISCARD",
        "IMPORT",
        "FORCE",
        "SECONDARY_LOAD",
        "SECONDARY_UNLOAD",
    ):
        operation = OtherAlter(inner.rest())
    elif is_table_option(inner):
        read_table_options(inner, names)
        operation = TableOptions(part)
    else:
        inner.fail("an operation of ALTER TABLE was expected")
    if not inner.done:
        inner.fail("the operation should end")
    return [Specification(operation, source)]


def _partition_operation(cursor: Cursor, names: list[NameRef]) -> Specification | None:
    """An operation on partitions, which takes the rest of the statement."""
    ahead = 1
    if not (cursor.word() in _PARTITION_VERBS and cursor.word(ahead) == "PARTITION"):
        partitioning = cursor.sees("PARTITION", "BY") or cursor.sees("REMOVE", "PARTITIONING")
        if cursor.sees("CONVERT", "TABLE"):
            cursor.fail("a table that becomes a partition is not supported")
        if not partitioning:
            return None
    if cursor.sees("CONVERT", "PARTITION"):
        cursor.fail("a partition that becomes a table is not supported")
    exchange = cursor.word() == "EXCHANGE"
    clause = cursor.rest()
    if not exchange:
        return Specification(OtherAlter(clause), clause.source)
    inner = cursor.within(clause)
    while not inner.done:
        if inner.accept("WITH", "TABLE"):
            other = inner.table()
            names.append(other)
            return Specification(ExchangePartition(other.name), clause.source)
        inner.take()
    return inner.fail("EXCHANGE PARTITION names no table")


def _whole_option(part: Clause) -> bool:
    tokens = [token.upper for token in part.tokens]
    if tokens and tokens[0] in ("ALGORITHM", "LOCK"):
        return len(tokens) <= 3
    return tokens in (["WITH", "VALIDATION"], ["WITHOUT", "VALIDATION"])


def _cut_partitioning(part: Clause) -> tuple[Clause, Clause]:
    """Remove `PARTITION BY ..` or `REMOVE PARTITIONING`, which follow the last operation without a comma."""
    depth = 0
    for index, token in enumerate(part.tokens[:-1]):
        word, following = token.upper, part.tokens[index + 1].upper
        depth += (word == "(") - (word == ")")
        if depth == 0 and (word, following) in (("PARTITION", "BY"), ("REMOVE", "PARTITIONING")):
            return Clause(part.text, part.tokens[:index]), Clause(part.text, part.tokens[index:])
    return part, Clause(part.text)


def _continues_order(part: Clause) -> bool:
    """Whether this is one more column of an ORDER BY instead of an operation."""
    tokens = list(part.tokens)
    while len(tokens) > 2 and tokens[0].kind in ("word", "name") and tokens[1].upper == ".":
        del tokens[:2]  # t.column, d.t.column
    if len(tokens) == 2 and tokens[1].upper not in ("ASC", "DESC"):
        return False
    return 0 < len(tokens) <= 2 and tokens[0].kind in ("word", "name") and tokens[0].upper not in ("FORCE", "ENGINE")


def read_alteration(cursor: Cursor, subject: NameRef, names: list[NameRef]) -> Alteration:
    """Read the text after `ALTER TABLE t`; adds the tables that it names to `names`."""
    specifications: list[Specification] = []
    whole: list[str] = []
    partitioned = False
    # ALGORITHM, LOCK and VALIDATION may precede an operation on partitions, too.
    while not cursor.done:
        operation = _partition_operation(cursor, names)
        if operation is not None:
            partitioned = bool(specifications)
            specifications.append(operation)
            break
        start = cursor.at
        part, partitioning = _cut_partitioning(cursor.to_comma())
        cursor.at += len(part.tokens)
        while part.tokens and part.tokens[0].upper == "ORDER" and cursor.sees(","):
            cursor.at += 1
            following = cursor.to_comma()
            if not _continues_order(following):
                cursor.at -= 1
                break
            cursor.at += len(following.tokens)
            part = cursor.part(start, cursor.at)
        if not part.tokens:
            cursor.fail("an operation was expected")
        if _whole_option(part):
            whole.append(part.source)
        else:
            specifications += _specification(part, cursor, names, subject)
        if partitioning.tokens:
            continue
        if not cursor.done:
            cursor.expect(",")
            if cursor.done:
                cursor.fail("an operation was expected")
    moves = [one.operation for one in specifications if isinstance(one.operation, RenameTable)]
    if any(new.schema != subject.name.schema for one in moves for _, new in one.pairs) and any(
        ref.foreign and ref.name.schema == subject.name.schema for ref in names
    ):
        # MySQL looks for a parent without a schema in the table's new schema, MariaDB in one or the other.
        cursor.fail("a table that gets a foreign key and another schema in one statement is not supported")
    return Alteration(tuple(specifications), tuple(whole), partitioned)
