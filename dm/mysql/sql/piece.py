"""A piece: one statement for the target, with one operation if possible. `split.py` makes pieces of a statement.

**Event filters** spell operations as DM does. A filter takes all that belongs together or none of it. CREATE OR REPLACE
is such a whole: it drops rows and makes a table, so it has both names, whether the target executes it at once or as a
DROP and a CREATE (`dm.mysql.sql.split`). A filter that keeps the target's rows from `drop table` thus keeps them from
it, and one of `create table` leaves no DROP behind. The operations of an ALTER TABLE are filtered one by one, as in DM.

**Names** of a route are put in place of the source's (`Piece.routed`). They are replaced by offset; everything else is
copied. Other names are quoted where some server reserves them (below). The caller tokenizes the new text again, and its
tokens must be the old ones, except for the names that were replaced and for the words that are quoted names now. The
new text means the same under any sql_mode: the source's reading of `"` and backslash is resolved in the text, because
the target's session reads them in one fixed way.

**Words** that are names at one server and reserved at another one must be quoted. `rank` is a name in MariaDB and in
MySQL 5.7, and reserved in MySQL 8.0; `offset` is a name in MySQL, and reserved in MariaDB 10.6. What is quoted is a
name everywhere, so a name is quoted wherever some server reserves it, whichever the target is. It must be a name at the
source: a word that the source may use as a keyword here is left as it is.

The words are those that MySQL 9.7 or MariaDB 10.11 refuse as a column's name, less those that all servers reserve that
may be a source. Few of them are keywords of a DDL statement on tables, and those only at places of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor, dialect
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, NameRef
from dm.mysql.sql.grammar import parse
from dm.mysql.sql.operation import (
    AddCheck,
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterDatabase,
    AlterDefault,
    AlterIndex,
    AlterVisibility,
    ChangeColumn,
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropDatabase,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    DropTable,
    ExchangePartition,
    ModifyColumn,
    Operation,
    OtherAlter,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
    TruncateTable,
)
from dm.mysql.sql.token import Token, tokenize

# Of a foreign key.
_EVENTS: Final = ("DELETE", "UPDATE")
_ACTIONS: Final = (("CASCADE",), ("SET", "NULL"), ("SET", "DEFAULT"))


@dataclass(frozen=True)
class Piece:
    """A statement with one operation, or with several that are invalid alone."""

    text: str
    verb: str
    operations: tuple[Operation, ...]
    names: tuple[NameRef, ...]
    context: SourceContext
    # DM's event names of the statement that it is a part of, where a filter takes all of that or nothing.
    whole_events: tuple[str, ...] = ()

    @classmethod
    def of(cls, text: str, context: SourceContext) -> Piece:
        """The piece that is a whole statement."""
        parsed = parse(text, context)
        return cls(parsed.text, parsed.verb, parsed.operations, parsed.names, context)

    @property
    def operation(self) -> Operation | None:
        """The operation, or the first one; None for an ALTER TABLE without operations."""
        return self.operations[0] if self.operations else None

    @property
    def table(self) -> TableName:
        """The table (or schema) the statement is about."""
        return self.names[0].name

    @cached_property
    def tables(self) -> tuple[TableName, ...]:
        """All tables that the statement names and may change, as the source names them."""
        return tuple(dict.fromkeys(ref.name for ref in self.names if not ref.foreign))

    @cached_property
    def references(self) -> tuple[TableName, ...]:
        """Parent tables of foreign keys that it names."""
        return tuple(dict.fromkeys(ref.name for ref in self.names if ref.foreign))

    @property
    def adds_acting_foreign_key(self) -> bool:
        """Whether it adds a foreign key that changes rows itself.

        No other clause has ON DELETE or ON UPDATE with one of these actions (a column's ON UPDATE has a function).
        """
        if not self.references:
            return False
        words = [token.upper for token in tokenize(self.text, self.context)]
        return any(
            word == "ON"
            and words[at + 1] in _EVENTS
            and any(tuple(words[at + 2 :][: len(action)]) == action for action in _ACTIONS)
            for at, word in enumerate(words[:-2])
        )

    @cached_property
    def renames(self) -> tuple[tuple[TableName, TableName], ...]:
        """Old and new names of the tables that it renames, in order."""
        return tuple(pair for one in self.operations if isinstance(one, RenameTable) for pair in one.pairs)

    @cached_property
    def passes_through(self) -> bool:
        """Whether it gives a table a name that it takes away again, as `x` of `a TO x, b TO a, x TO b`."""
        return bool(_between(self.renames))

    @cached_property
    def made(self) -> frozenset[TableName]:
        """The tables that it creates."""
        if isinstance(self.operation, CreateTable):
            return frozenset({self.operation.table})
        return frozenset(new for _, new in self.renames)

    @cached_property
    def changed(self) -> tuple[TableName, ...]:
        """The tables that it changes.

        CREATE TABLE .. LIKE only reads its model. A name used only to swap tables belongs to no table, before or after.
        """
        first = self.operation
        unchanged = {first.like} if isinstance(first, CreateTable) else _between(self.renames)
        return tuple(table for table in self.tables if table not in unchanged)

    @cached_property
    def events(self) -> tuple[str, ...]:
        """DM's event names of the operations, for filters; one operation may have several."""
        if self.whole_events:
            return self.whole_events
        found = dict.fromkeys(event for operation in self.operations for event in events_of(operation, self.verb))
        return tuple(found) or ("alter table",)

    @property
    def event(self) -> str:
        """DM's event name of the first operation."""
        return self.events[0]

    def routed(self, mapping: Mapping) -> str:
        """The text with the target's names, each qualified with its schema."""
        return self.route(mapping).text

    def route(self, mapping: Mapping) -> Piece:
        """The piece with the target's names; fails if anything but the names differs."""
        tokens = tokenize(self.text, self.context)
        target_context = replace(
            self.context, schema="", ansi_quotes=False, no_backslash_escapes=False, lower_case_names=False
        )
        text, expected = splice(self.text, tokens, self.names, mapping, self.context)
        found = [token.meaning for token in tokenize(text, target_context)]
        if found != expected:
            raise DMError("ddl-splice-mismatch", statement=self.text, why="the new text reads differently")
        piece = Piece.of(text, target_context)
        wanted = [mapping(ref.name) for ref in self.names]
        if [ref.name for ref in piece.names] != wanted or len(piece.operations) != len(self.operations):
            raise DMError("ddl-splice-mismatch", statement=self.text, why="the new text names other tables")
        return piece


def _between(renames: Sequence[tuple[TableName, TableName]]) -> set[TableName | None]:
    """The names that exist only inside a RENAME TABLE: `x` of `a TO x, b TO a, x TO b`."""
    made: set[TableName] = set()
    found: set[TableName | None] = set()
    taken: set[TableName] = set()
    for old, new in renames:
        (found if old in made else taken).add(old)
        made.discard(old)
        made.add(new)
    return found - taken - made


_FIXED: Final[dict[type, str]] = {
    CreateDatabase: "create database",
    AlterDatabase: "alter database",
    DropDatabase: "drop database",
    CreateTable: "create table",
    DropTable: "drop table",
    TruncateTable: "truncate table",
    RenameTable: "rename table",
    AddColumn: "add column",
    DropColumn: "drop column",
    ModifyColumn: "modify column",
    RenameColumn: "rename column",
    AlterVisibility: "alter table",
    AddForeignKey: "add foreign key",
    AddCheck: "modify constraint",
    DropIndex: "drop index",
    DropPrimaryKey: "drop primary key",
    DropForeignKey: "drop foreign key",
    DropConstraint: "modify constraint",
    RenameIndex: "rename index",
    AlterIndex: "alter index visibility",
    ConvertCharset: "modify table charset and collate",
    ExchangePartition: "exchange table partition",
}
_OPTIONS: Final = (
    ("COMMENT", "modify table comment"),
    ("AUTO_INCREMENT", "rebase auto id"),
    ("ENGINE", "modify storage engine"),
    ("CHARSET", "modify table charset and collate"),
    ("CHAR", "modify table charset and collate"),
    ("CHARACTER", "modify table charset and collate"),
    ("COLLATE", "modify table charset and collate"),
)
_PARTITION_EVENTS: Final = {
    ("ADD", "PARTITION"): "add table partition",
    ("DROP", "PARTITION"): "drop table partition",
    ("TRUNCATE", "PARTITION"): "truncate table partition",
    ("REORGANIZE", "PARTITION"): "reorganize table partition",
    ("REBUILD", "PARTITION"): "rebuild table partition",
    ("COALESCE", "PARTITION"): "coalesce table partition",
    ("PARTITION", "BY"): "alter table partitioning",
    ("REMOVE", "PARTITIONING"): "remove table partitioning",
}


def _other(clause: Clause) -> str:
    words = [token.upper for token in clause.tokens[:2]]
    if words[:1] in (["CHECK"], ["CONSTRAINT"]):
        return "modify constraint"
    return _PARTITION_EVENTS.get((words[0], words[1]), "alter table") if len(words) > 1 else "alter table"


def events_of(operation: Operation, verb: str) -> tuple[str, ...]:
    """DM's event names of an operation; `alter table` if it has no name of its own."""
    if isinstance(operation, TableOptions):
        words = {token.upper for token in operation.options.tokens}
        return tuple(dict.fromkeys(event for word, event in _OPTIONS if word in words)) or ("alter table",)
    if isinstance(operation, CreateTable | CreateDatabase) and operation.or_replace:
        return (_FIXED[type(operation)], _FIXED[DropTable if isinstance(operation, CreateTable) else DropDatabase])
    return (_event_of(operation, verb),)


def _event_of(operation: Operation, verb: str) -> str:
    fixed = _FIXED.get(type(operation))
    if fixed is not None:
        return fixed
    if isinstance(operation, AddIndex):
        if verb == "CREATE INDEX":
            return "create index"
        return "add primary key" if operation.primary else "alter table"
    if isinstance(operation, AlterDefault):
        return "set default value" if operation.default.tokens else "modify default value"
    if isinstance(operation, ChangeColumn):
        return "modify column" if operation.column.lower() == operation.name.lower() else "rename column"
    assert isinstance(operation, OtherAlter)
    return _other(operation.clause)


Mapping = Callable[[TableName], TableName]


def _requoted(text: str, token: Token, context: SourceContext) -> str:
    """A quoted token in a form that sessions with neither ANSI_QUOTES nor NO_BACKSLASH_ESCAPES read alike."""
    source = text[token.start : token.end]
    if token.kind == "name" and source[0] == '"':
        return Ident(token.text).sql
    if token.kind == "string" and context.no_backslash_escapes and "\\" in source:
        prefix = source[: 1 - int(source[0] in "'\"")]  # the N of a national string
        return prefix + "'" + token.text.replace("\\", "\\\\").replace("'", "''") + "'"
    return source


def splice(
    text: str, tokens: tuple[Token, ...], names: tuple[NameRef, ...], mapping: Mapping, context: SourceContext
) -> tuple[str, list[tuple[str, str]]]:
    """The new text, and what its tokens must mean."""
    out: list[str] = []
    expected: list[tuple[str, str]] = []
    reserved = names_elsewhere_reserved(tokens, context.flavor)
    at = index = 0

    def copy(index: int) -> int:
        token = tokens[index]
        quoted = index in reserved
        out.append(text[at : token.start])
        out.append(Ident(token.text).sql if quoted else _requoted(text, token, context))
        expected.append(("name", token.text) if quoted else token.meaning)
        return token.end

    for ref in sorted(names, key=lambda ref: ref.start):
        while index < len(tokens) and tokens[index].end <= ref.start:
            at = copy(index)
            index += 1
        target = mapping(ref.name)
        blank = " " if ref.start == ref.end else ""  # a missing name is inserted right after a keyword
        out += (text[at : ref.start], blank, target.sql)
        at = ref.end
        expected.append(("name", target.schema))
        if target.table:
            expected += (("symbol", "."), ("name", target.table))
        while index < len(tokens) and tokens[index].start < ref.end:
            index += 1
    for last in range(index, len(tokens)):
        at = copy(last)
    return "".join(out), expected


# Reserved by MySQL, some since 5.7 or 8.0, and never by MariaDB.
_BY_MYSQL: Final = frozenset(
    {
        "CUBE", "CUME_DIST", "DENSE_RANK", "EMPTY", "EXTERNAL", "FIRST_VALUE", "FUNCTION", "GENERATED", "GET",
        "GROUPING", "GROUPS", "IO_AFTER_GTIDS", "IO_BEFORE_GTIDS", "JSON_TABLE", "LAG", "LAST_VALUE", "LATERAL",
        "LEAD", "LIBRARY", "NTH_VALUE", "NTILE", "OF", "OPTIMIZER_COSTS", "PERCENT_RANK", "QUALIFY", "RANK", "ROW",
        "STORED", "SYSTEM", "TABLESAMPLE", "VIRTUAL", "WINDOW",
    }
)  # fmt: skip
# Reserved by both, by a version of MySQL or MariaDB that is not the oldest source.
_BY_BOTH: Final = frozenset({"EXCEPT", "INTERSECT", "OVER", "RECURSIVE", "ROWS", "ROW_NUMBER"})
# Reserved by MariaDB since a version that is not the oldest source.
_BY_MARIADB: Final = frozenset({"OFFSET", "PORTION", "RETURNING"})
# MySQL has always reserved DATABASE, OPTION and SCHEMA, and MariaDB the last nine.
_NAMES_OF_MARIADB: Final = _BY_MYSQL | _BY_BOTH | _BY_MARIADB | {"DATABASE", "OPTION", "SCHEMA"}
_NAMES_OF_MYSQL: Final = _BY_MYSQL | _BY_BOTH | _BY_MARIADB | {
    "CURRENT_ROLE", "DELETE_DOMAIN_ID", "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS", "MASTER_DEMOTE_TO_REPLICA",
    "MASTER_DEMOTE_TO_SLAVE", "MASTER_SSL_VERIFY_SERVER_CERT", "PAGE_CHECKSUM", "PARSE_VCOL_EXPR",
}  # fmt: skip
_VERBS: Final = ("CREATE", "ALTER", "DROP", "REPLACE")


def names_reserved(flavor: Flavor) -> frozenset[str]:
    """The words that are quoted where a source of this flavour has them as names."""
    return _NAMES_OF_MARIADB if dialect(flavor).reserves_replication_words else _NAMES_OF_MYSQL


def names_elsewhere_reserved(tokens: Sequence[Token], flavor: Flavor) -> frozenset[int]:
    """The places of the words, in a DDL statement of a source, that are names and reserved at some server."""
    names = names_reserved(flavor)
    return frozenset(
        at for at, token in enumerate(tokens) if token.upper in names and token.kind == "word" and _is_name(tokens, at)
    )


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    before = tokens[at - 1].upper if at else ""
    following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    word = tokens[at].upper
    if word in ("EMPTY", "OF"):  # JSON_VALUE (.. NULL ON EMPTY), MEMBER OF (..)
        return before not in ("ON", "MEMBER")
    if word == "RETURNING":  # JSON_VALUE (.., '$.a' RETURNING CHAR)
        return not at or tokens[at - 1].kind != "string"
    if word == "GENERATED":
        return following != "ALWAYS"
    if word in ("STORED", "VIRTUAL"):  # AS (..) STORED
        return before != ")"
    if word == "ROW":  # ROW (1, 2) of an expression
        return following != "(" or before in ("KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL")
    if word in ("DATABASE", "SCHEMA"):  # CREATE DATABASE, and the function
        verb = before in _VERBS and all(token.upper in _VERBS or token.upper == "OR" for token in tokens[:at])
        return not verb and not (following == "(" and at + 2 < len(tokens) and tokens[at + 2].upper == ")")
    return True
