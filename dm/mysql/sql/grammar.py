"""One DDL statement: what it does, and where it names tables.

This is not a grammar of the servers' language. It covers what the replicator must see: operations, and every name that
routing replaces. The source has accepted the statement, so nothing is validated for its own sake. What does not match
is not understood, and the task pauses.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from dm.ident import TableName
from dm.mysql.sql.alter import Specification, definition_kind, read_alteration, references
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, NameRef, split_at_commas
from dm.mysql.sql.operation import (
    AddIndex,
    AlterDatabase,
    CreateDatabase,
    CreateTable,
    DropDatabase,
    DropIndex,
    DropTable,
    Operation,
    RenameTable,
    TruncateTable,
    read_table_options,
)
from dm.mysql.sql.token import KEPT, LONGEST_KEPT, read_statement

INDEX_KINDS: Final = ("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
INDEX_WORDS: Final = ("INDEX", "KEY")


@dataclass(frozen=True, slots=True)
class Parsed:
    """A statement that was understood."""

    verb: str  # CREATE TABLE, DROP INDEX ..
    text: str  # as the source read it, see dm.mysql.sql.token
    operations: tuple[Operation, ...]
    names: tuple[NameRef, ...]  # in the order they are written
    specifications: tuple[Specification, ...] = ()  # of an ALTER TABLE
    head: str = ""  # the text before the operations of an ALTER TABLE or the names of a DROP TABLE
    head_at: int = 0  # where the head begins
    tail: str = ""  # what follows the names of a DROP TABLE
    whole_options: tuple[str, ...] = ()
    partitioned: bool = False


_QUERY_WORDS: Final = ("SELECT", "AS", "WITH", "VALUES", "TABLE")


def _wait(cursor: Cursor) -> None:
    """MariaDB's lock wait clause."""
    if cursor.accept("WAIT"):
        cursor.take()
    else:
        cursor.accept("NOWAIT")


def _through(cursor: Cursor) -> str:
    """The text up to and with the token before the cursor."""
    last = cursor.peek(-1)
    first = cursor.clause.tokens[0]
    assert last is not None
    return cursor.clause.text[first.start : last.end]


def _create_table(cursor: Cursor, text: str, *, or_replace: bool) -> Parsed:
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    subject = cursor.table()
    names = [subject]
    empty = Clause(cursor.clause.text)
    if cursor.word() == "LIKE" or cursor.sees("(", "LIKE"):
        closing = cursor.accept("(")
        cursor.expect("LIKE")
        like = cursor.table()
        names.append(like)
        if closing:
            cursor.expect(")")
        operation = CreateTable(subject.name, empty, empty, like.name, if_not_exists, or_replace)
        return Parsed("CREATE TABLE", text, (operation,), tuple(names))
    if cursor.word() != "(" or cursor.word(1) in ("SELECT", "WITH", "VALUES", "("):
        cursor.fail("CREATE TABLE .. SELECT stands in the binlog with its columns only in row format; expected columns")
    body = cursor.skip_group()
    _note_qualifiers(body, cursor)
    names += references(body, cursor, subject)
    start = cursor.at
    options = read_table_options(cursor, names)
    clause = cursor.part(start, cursor.at)
    if cursor.sees("PARTITION", "BY"):
        clause = cursor.part(start, cursor.at)
        partitioning = cursor.rest()
        clause = Clause(clause.text, clause.tokens + partitioning.tokens)
    elif cursor.word() in _QUERY_WORDS or cursor.word() in ("(", "IGNORE", "REPLACE"):
        if cursor.sees("WITH", "SYSTEM"):
            cursor.fail("system-versioned tables are not supported")
        cursor.fail("a CREATE TABLE .. SELECT in statement format cannot be replicated")
    if any(option.name == "START TRANSACTION" for option in options):
        # MySQL writes CREATE TABLE .. SELECT as this statement and the rows, one transaction (sql/sql_table.cc). The
        # target gets the table at once and the rows as rows. Other options and partitions may follow these words.
        at = next(index for index, token in enumerate(clause.tokens) if token.upper == "START")
        start, end = clause.tokens[at].start, clause.tokens[at + 1].end
        clause = Clause(clause.text, clause.tokens[:at] + clause.tokens[at + 2 :])
        text = (text[:start] + " " * (end - start) + text[end:]).rstrip()
    operation = CreateTable(subject.name, body, clause, None, if_not_exists, or_replace)
    return Parsed("CREATE TABLE", text, (operation,), tuple(names))


def _note_qualifiers(body: Clause, cursor: Cursor) -> None:
    if any(token.upper == "." for token in body.tokens):
        for element in split_at_commas(body):
            inner = cursor.within(element)
            if definition_kind(inner) == "column":
                inner.column()


def _create_index(cursor: Cursor, text: str, start: int, *, or_replace: bool) -> Parsed:
    """CREATE [kind] INDEX name [type] ON t (parts) options: the usual definition except for name and table."""
    kind = cursor.part(start, cursor.at)  # UNIQUE INDEX and so on
    if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
    name = cursor.name()
    method_start = cursor.at
    while cursor.word() not in ("ON", ""):
        cursor.take()
    method = cursor.part(method_start, cursor.at)
    cursor.expect("ON")
    subject = cursor.table()
    parts = cursor.rest()
    definition = Clause(parts.text, kind.tokens + method.tokens + parts.tokens)
    operation = AddIndex(definition, primary=False, name=name, if_not_exists=if_not_exists, or_replace=or_replace)
    return Parsed("CREATE INDEX", text, (operation,), (subject,))


def _create(cursor: Cursor, text: str) -> Parsed:
    or_replace = cursor.accept("OR", "REPLACE")
    start = cursor.at
    cursor.accept_any("ONLINE", "OFFLINE")
    if cursor.accept("TABLE"):
        return _create_table(cursor, text, or_replace=or_replace)
    if cursor.accept_any("DATABASE", "SCHEMA"):
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = cursor.schema()
        return Parsed(
            "CREATE DATABASE", text, (CreateDatabase(name.name, cursor.rest(), if_not_exists, or_replace),), (name,)
        )
    cursor.accept_any(*INDEX_KINDS)
    if cursor.accept("INDEX"):
        return _create_index(cursor, text, start, or_replace=or_replace)
    return cursor.fail("this kind of CREATE is not known")


def _alter_database(cursor: Cursor, text: str) -> Parsed:
    token = cursor.peek()
    options = ("CHARACTER", "CHARSET", "DEFAULT", "COLLATE", "ENCRYPTION", "READ", "COMMENT")
    if token is not None and token.kind in ("word", "name") and token.upper not in options:
        name = cursor.schema()
    else:
        before = cursor.peek(-1)
        assert before is not None
        schema = cursor.context.schema.lower() if cursor.context.lower_case_names else cursor.context.schema
        name = NameRef(TableName(schema, ""), before.end, before.end)
    if cursor.sees("UPGRADE"):
        cursor.fail("UPGRADE DATA DIRECTORY NAME is not supported")
    return Parsed("ALTER DATABASE", text, (AlterDatabase(name.name, cursor.rest()),), (name,))


def _alter(cursor: Cursor, text: str) -> Parsed:
    if cursor.accept_any("DATABASE", "SCHEMA"):
        return _alter_database(cursor, text)
    while cursor.accept_any("ONLINE", "OFFLINE", "IGNORE"):
        pass
    cursor.expect("TABLE")
    cursor.accept("IF", "EXISTS")
    subject = cursor.table()
    _wait(cursor)
    head = _through(cursor)
    names = [subject]
    alteration = read_alteration(cursor, subject, names)
    return Parsed(
        "ALTER TABLE",
        text,
        tuple(specification.operation for specification in alteration.specifications),
        tuple(names),
        alteration.specifications,
        head,
        cursor.clause.tokens[0].start,
        whole_options=alteration.whole_options,
        partitioned=alteration.partitioned,
    )


def _drop(cursor: Cursor, text: str) -> Parsed:
    if cursor.accept_any("DATABASE", "SCHEMA"):
        if_exists = cursor.accept("IF", "EXISTS")
        name = cursor.schema()
        return Parsed("DROP DATABASE", text, (DropDatabase(name.name, if_exists),), (name,))
    if cursor.accept("INDEX"):
        if_exists = cursor.accept("IF", "EXISTS")
        index = cursor.name()
        cursor.expect("ON")
        subject = cursor.table()
        options = cursor.rest()
        if options.tokens and options.tokens[0].upper not in ("ALGORITHM", "LOCK", "WAIT", "NOWAIT"):
            cursor.fail("DROP INDEX should end")
        return Parsed("DROP INDEX", text, (DropIndex(index, if_exists),), (subject,))
    cursor.accept_any("TABLE", "TABLES") or cursor.fail("this kind of DROP is not known")
    if_exists = cursor.accept("IF", "EXISTS")
    head = _through(cursor)
    names = [cursor.table()]
    while cursor.accept(","):
        names.append(cursor.table())
    _wait(cursor)
    tail = cursor.accept_any("RESTRICT", "CASCADE")
    operations = tuple(DropTable(name.name, if_exists) for name in names)
    return Parsed("DROP TABLE", text, operations, tuple(names), head=head, tail=tail)


def _rename(cursor: Cursor, text: str) -> Parsed:
    cursor.accept_any("TABLE", "TABLES") or cursor.fail("this kind of RENAME is not known")
    if_exists = cursor.accept("IF", "EXISTS")
    names: list[NameRef] = []
    pairs = []
    while True:
        source = cursor.table()
        _wait(cursor)
        cursor.expect("TO")
        target = cursor.table()
        names += (source, target)
        pairs.append((source.name, target.name))
        if not cursor.accept(","):
            break
    return Parsed("RENAME TABLE", text, (RenameTable(tuple(pairs), if_exists),), tuple(names))


def _truncate(cursor: Cursor, text: str) -> Parsed:
    cursor.accept("TABLE")
    subject = cursor.table()
    _wait(cursor)
    return Parsed("TRUNCATE TABLE", text, (TruncateTable(subject.name),), (subject,))


def skip_set_statement(cursor: Cursor) -> int:
    """Skip MariaDB's `SET STATEMENT variable = value, .. FOR`; returns where the statement begins, 0 without it."""
    if not cursor.accept("SET", "STATEMENT"):
        return 0
    depth = 0
    while depth or cursor.word() != "FOR":
        word = cursor.take().upper
        depth += (word == "(") - (word == ")")
    cursor.expect("FOR")
    token = cursor.peek()
    return 0 if token is None else token.start


def parse(text: str, context: SourceContext) -> Parsed:
    """Parse one DDL statement, or pause."""
    return (_parsed_before if len(text) <= LONGEST_KEPT else _parsed)(text, context)


def _parsed(text: str, context: SourceContext) -> Parsed:
    read = read_statement(text, context)
    lexed, tokens = read.lexed, read.tokens
    while tokens and tokens[-1].upper == ";":
        tokens = tokens[:-1]
    kept = lexed.text[: tokens[-1].end] if tokens else ""
    cursor = Cursor(Clause(lexed.text, tokens), context)
    begin = skip_set_statement(cursor)
    if begin:
        return parse(kept[begin:], context)
    verb = cursor.accept_any("CREATE", "ALTER", "DROP", "RENAME", "TRUNCATE")
    if verb == "CREATE":
        parsed = _create(cursor, kept)
    elif verb == "ALTER":
        parsed = _alter(cursor, kept)
    elif verb == "DROP":
        parsed = _drop(cursor, kept)
    elif verb == "RENAME":
        parsed = _rename(cursor, kept)
    elif verb == "TRUNCATE":
        parsed = _truncate(cursor, kept)
    else:
        cursor.fail("this is no DDL statement that is known")
    if not cursor.done:
        cursor.fail("the statement should end")
    if cursor.qualifiers:
        # They only say again which table it is, under names that routes may change; other servers don't take them.
        for start, end in cursor.qualifiers:
            kept = kept[:start] + " " * (end - start) + kept[end:]
        return parse(kept, context)
    if context.other_types and parsed.verb in ("CREATE TABLE", "ALTER TABLE"):
        cursor.fail("under sql_mode ORACLE and MAXDB data types mean something else; the statement ends")
    return parsed


_parsed_before: Final = lru_cache(maxsize=KEPT)(_parsed)  # see `dm.mysql.sql.token`
