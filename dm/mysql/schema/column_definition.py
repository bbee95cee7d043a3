"""Column definitions: the type, then attributes in any order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.binlog.charset import decoder_of, max_bytes
from dm.mysql.schema.charset import Collated, binary_collation, collated
from dm.mysql.schema.index_definition import IndexDefinition, read_references
from dm.mysql.schema.table import Column, ForeignKey, IndexKind, IndexPart
from dm.mysql.schema.time_default import CURRENT_TIMESTAMP, with_its_digits, with_its_zone
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause, Cursor, NameRef
from dm.mysql.types import DataType, column_type, is_known, read_type

_WITH_VALUE = (
    "COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "REF_SYSTEM_ID", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE",
)  # fmt: skip


_CHECKS_SINCE: Final = 100201  # MariaDB; before, it reads CHECK and forgets it
_JSON_IS_CHECKED_SINCE: Final = 100403  # MariaDB's alias (MDEV-13916)


@dataclass(slots=True)
class Definition:
    """A column as defined, and what its definition adds to the table."""

    column: Column
    primary: bool = False
    unique: bool = False
    parent: NameRef | None = None
    parent_columns: tuple[str, ...] = ()
    on_delete: str = "restrict"
    on_update: str = "restrict"
    checks: list[str | None] = field(default_factory=list)

    def indexes(self) -> list[IndexDefinition]:
        """The indexes in the definition."""
        part = (IndexPart(self.column.name),)
        kinds: list[IndexKind] = ["primary"] if self.primary else []
        if self.unique:
            kinds.append("unique")
        return [IndexDefinition(None, kind, part) for kind in kinds]

    def foreign_key(self) -> tuple[ForeignKey, IndexDefinition]:
        """The foreign key in the definition, and its index."""
        assert self.parent is not None
        columns = (self.column.name,)
        key = ForeignKey("", columns, self.parent.name, self.parent_columns or columns, self.on_delete, self.on_update)
        return key, IndexDefinition(None, "index", (IndexPart(self.column.name),), generated=True)


@dataclass(slots=True)
class _Attributes:
    nullable: bool | None = None
    default: str | None = None
    on_update: str | None = None
    auto_increment: bool = False
    generated: Literal["virtual", "stored"] | None = None
    expression: str | None = None
    invisible: bool = False
    collation: str | None = None
    primary: bool = False
    unique: bool = False
    asks_json: bool = False


def _source(cursor: Cursor, start: int) -> str:
    return cursor.part(start, cursor.at).source


def read_default(cursor: Cursor) -> str:
    """The source text of a default value: a literal, a function, or an expression in parentheses."""
    start = cursor.at
    if cursor.accept("NEXT", "VALUE", "FOR"):
        cursor.table()
        return _source(cursor, start)
    cursor.accept_any("-", "+")
    if cursor.word() == "(":
        cursor.skip_group()
        return _source(cursor, start)
    if cursor.accept("{"):  # MariaDB: {d '..'}, {ts '..'}, {fn ..}
        depth = 1
        while depth:
            word = cursor.take().upper
            depth += (word == "{") - (word == "}")
        return _source(cursor, start)
    token = cursor.take()
    if token.kind == "symbol":
        cursor.at -= 1
        cursor.fail("expected a default value")
    if token.kind == "string":
        cursor.at -= 1
        text = cursor.string()
        if cursor.context.no_backslash_escapes:  # the reader of the structure reads backslashes as escapes
            return "'" + text.replace("\\", "\\\\").replace("'", "''") + "'"
    elif token.kind in ("word", "name"):
        following = cursor.peek()
        if cursor.accept("."):
            cursor.name()
        if cursor.word() == "(":
            cursor.skip_group()
        elif following is not None and following.kind in ("string", "literal", "number") and token.kind == "word":
            cursor.take()  # an introducer, or DATE '..'
    return _source(cursor, start)


def _enforced(cursor: Cursor) -> None:
    if not cursor.accept("NOT", "ENFORCED"):
        cursor.accept("ENFORCED")


def _generated(cursor: Cursor, found: _Attributes) -> bool:
    if not (cursor.accept("GENERATED", "ALWAYS", "AS") or cursor.accept("AS")):
        return False
    if cursor.word() != "(":
        cursor.fail("only generated columns with an expression are supported")
    found.expression = cursor.skip_group().source
    word = cursor.accept_any("VIRTUAL", "STORED", "PERSISTENT")
    found.generated = "stored" if word in ("STORED", "PERSISTENT") else "virtual"
    return True


def _asks_json(check: Clause, column: str) -> bool:
    """Whether a CHECK is JSON_VALID of the column, and no more."""
    tokens = check.tokens
    if len(tokens) != 4 or tokens[2].kind not in ("word", "name"):
        return False
    words = tokens[0].upper, tokens[1].upper, tokens[3].upper
    return words == ("JSON_VALID", "(", ")") and tokens[2].text.lower() == column.lower()


def _json_checked(found: _Attributes, definition: Definition, context: SourceContext, *, alias: bool) -> bool:
    """Whether the column's own CHECK, written or implied by MariaDB's alias JSON, demands JSON and no more."""
    if not context.dialect.json_is_text:
        return False
    if definition.checks:
        return found.asks_json and context.version >= _CHECKS_SINCE
    return alias and context.version >= _JSON_IS_CHECKED_SINCE


def _attribute(cursor: Cursor, found: _Attributes, definition: Definition) -> None:
    """One attribute."""
    if cursor.accept("NOT", "NULL"):
        found.nullable = False
    elif cursor.accept("NULL"):
        found.nullable = True
    elif cursor.accept("DEFAULT"):
        found.default = read_default(cursor)
    elif cursor.accept("SERIAL", "DEFAULT", "VALUE"):
        found.nullable, found.auto_increment, found.unique = False, True, True
    elif cursor.sees("ON", "UPDATE"):
        cursor.at += 2
        start = cursor.at
        if not cursor.accept_any(*CURRENT_TIMESTAMP):
            cursor.fail("expected CURRENT_TIMESTAMP")
        if cursor.word() == "(":
            cursor.skip_group()
        found.on_update = _source(cursor, start)
    elif cursor.accept("AUTO_INCREMENT"):
        found.auto_increment = True
    elif cursor.accept("PRIMARY", "KEY") or cursor.accept("PRIMARY") or cursor.accept("KEY"):
        found.primary = True
    elif cursor.accept("UNIQUE"):
        cursor.accept("KEY")
        found.unique = True
    elif cursor.accept("COLLATE"):
        cursor.accept("=")
        found.collation = cursor.take().text
    elif cursor.accept("INVISIBLE"):
        found.invisible = True
    elif cursor.accept("VISIBLE") or cursor.accept("NOT", "SECONDARY") or _generated(cursor, found):
        pass
    elif cursor.word() in _WITH_VALUE:
        cursor.take()
        cursor.accept("=")
        cursor.take()
    elif cursor.accept("REFERENCES"):
        definition.parent, definition.parent_columns, definition.on_delete, definition.on_update = read_references(
            cursor
        )
    elif cursor.word() == "CONSTRAINT" or cursor.word() == "CHECK":
        name = None
        if cursor.accept("CONSTRAINT") and cursor.word() != "CHECK":
            name = cursor.name()
        cursor.expect("CHECK")
        found.asks_json = _asks_json(cursor.skip_group(), definition.column.name)
        _enforced(cursor)
        definition.checks.append(name)
    elif cursor.sees("WITH", "SYSTEM", "VERSIONING"):  # on one column it makes the whole table versioned
        cursor.fail("system-versioned tables are not supported")
    elif cursor.accept("WITHOUT", "SYSTEM", "VERSIONING"):
        pass
    elif cursor.word(1) == "=" and cursor.context.dialect.takes_engine_options:
        cursor.at += 2  # an option of the storage engine
        cursor.take()
    else:
        cursor.fail("this attribute of a column is not known")


def _text_of(
    data_type: DataType, found: _Attributes, inherited: Collated, cursor: Cursor
) -> tuple[str | None, str | None]:
    """The character set and collation of the column; makes character types of bytes into binary types."""
    of = column_type(data_type.base)
    if data_type.document and of.is_text:  # MariaDB's alias
        return "utf8mb4", "utf8mb4_bin"
    if not of.has_charset:
        return None, None
    text = collated(data_type.charset, found.collation or data_type.collation, inherited, cursor.context)
    if data_type.binary:
        text = Collated(text.charset, binary_collation(text.charset))
    if text.charset == "binary" and of.is_text:  # Reference Manual, "The CHAR and VARCHAR Types"
        data_type.base, data_type.charset, data_type.collation, data_type.binary = of.binary, None, None, False
        return None, None
    return text.charset, text.collation


# The shortest character of sets whose characters all take several bytes.
_WIDTHS: Final = {"ucs2": 2, "utf16": 2, "utf16le": 2, "utf32": 4}


def _member(member: str | bytes, charset: str | None) -> str:
    """A member of ENUM or SET as text.

    Bytes (`0x9353`, `x'9353'`) are in the column's character set, whatever the session's is (String::needs_conversion
    of both servers: nothing is converted from `binary`); before a character that is too short there are zeros.
    """
    if isinstance(member, str):
        return member
    width = _WIDTHS.get(charset or "", 1)
    value = member.rjust(-(-len(member) // width) * width, b"\0")
    decode = None if charset in (None, "binary") else decoder_of(charset)
    text = None if decode is None else decode(value)
    return value.decode("utf-8", "surrogateescape") if text is None else text


def read_definition(name: str, clause: Clause, inherited: Collated, cursor: Cursor, table: TableName) -> Definition:
    """Read the definition of a table's column; the clause starts with its type."""
    inner = cursor.within(clause)
    if (word := inner.word()) and not is_known(word):
        raise DMError("column-type-unknown", table=table, column=name, type=word.lower())
    data_type = read_type(inner)
    found = _Attributes()
    definition = Definition(Column(name, data_type.base))
    while not inner.done:
        _attribute(inner, found, definition)
    alias = data_type.document
    charset, collation = _text_of(data_type, found, inherited, inner)
    members = tuple(_member(member, charset) for member in data_type.members)
    if charset != "binary":  # servers strip a label's trailing spaces, but not in bytes
        members = tuple(member.rstrip(" ") for member in members)
    column_type(data_type.base).settled(data_type, max_bytes(charset))
    nullable = found.nullable is not False
    if data_type.serial:
        nullable, found.auto_increment, found.unique = False, True, True
    if found.primary or found.auto_increment:
        nullable = False
    default = None if found.default is not None and found.default.upper() == "NULL" else found.default
    definition.primary, definition.unique = found.primary, found.unique
    if (
        column_type(data_type.base).is_moment
        and not inner.context.explicit_defaults_for_timestamp
        and found.generated is None
        and found.nullable is None
    ):
        nullable = False  # Reference Manual, explicit_defaults_for_timestamp
    column = Column(
        name,
        data_type.base,
        data_type.length,
        data_type.decimals,
        data_type.unsigned,
        charset,
        collation,
        members,
        nullable,
        default,
        found.on_update,
        found.auto_increment,
        found.generated,
        found.expression,
        found.invisible,
        _json_checked(found, definition, inner.context, alias=alias),
    )
    definition.column = with_its_zone(with_its_digits(column, inner.context), inner.context)
    return definition


def with_implicit_timestamps(columns: Sequence[Column], cursor: Cursor) -> list[Column]:
    """All columns of a table, with the defaults that TIMESTAMP has without explicit_defaults_for_timestamp.

    The table's first TIMESTAMP is updated automatically, the others default to zero (Reference Manual;
    promote_first_timestamp_column in the source, which stops at the first one whether or not it takes the defaults).
    """
    if cursor.context.explicit_defaults_for_timestamp:
        return list(columns)
    found, first = [], True
    for column in columns:
        if column.type.is_moment:
            if not column.nullable and column.default is None and column.generated is None:
                now = f"CURRENT_TIMESTAMP({column.decimals or 0})"
                if first and column.on_update is None:
                    column = replace(column, default=now, on_update=now)
                elif column.on_update is None:
                    column = replace(column, default="'0000-00-00 00:00:00'")
            first = False
        found.append(column)
    return found
