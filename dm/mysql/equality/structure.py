"""A table's structure as information_schema tells it, in a form in which equal tables of both flavours are equal.

It judges dm's work, so it shares no code with dm's own reading of structures; of a type it asks no more than which
family it is of. What only one flavour knows
how to say is evened out: display widths of integers, quoting of defaults, MariaDB's JSON (a LONGTEXT), spellings of
CURRENT_TIMESTAMP. Between flavours collations and generation expressions are left out, because each server has its
own. A TiDB has MySQL's collations, and prints expressions in its own way. Its information_schema tells of no ZEROFILL,
and a default as the statement wrote it. It has no invisible columns.

MySQL's information_schema tells an expression as the statement wrote it until the next ALTER TABLE of whatever kind,
and from then on with its literals in the character set that they are evaluated in: `_utf8mb4'<'` turns into
`_utf16'\\0<'`. SHOW CREATE TABLE tells the second form from the beginning, so expressions are taken from there, with
the bytes of their literals.
It also tells a TIMESTAMP's default in the zone of who asks, information_schema as the session wrote it that altered the
table last. And it tells all bytes of a BINARY's default, where information_schema leaves out zeros at the end.
MariaDB's information_schema tells such a default as text, with a question mark for what is none.

Older servers tell less. MariaDB 10.1 does not tell the expression of a generated column, so only its kind is compared.
MySQL before 8.0.13 has no expressions in indexes, and no column for them. Older servers call utf8mb3 and its collations
utf8. They do not mark a default that is an expression; the only one they have is CURRENT_TIMESTAMP. MariaDB writes
defaults as SQL since 10.2.7.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, cast

from pymysql.connections import Connection
from pymysql.cursors import Cursor

from dm.ident import Ident, TableName
from dm.mysql.dialect import Flavor, dialect, flavor_of
from dm.mysql.dialect.tidb import escaped_type
from dm.mysql.schema.charset import utf8mb3_name
from dm.mysql.sql.context import version_number
from dm.mysql.types import ColumnType, printed_type
from dm.mysql.types.documents import may_hold_documents
from dm.session.answers import reads_answers
from dm.text import is_decimal

Rename = Callable[[TableName], TableName]

_WIDTH = re.compile(r"\(\d+\)(?! unsigned zerofill| zerofill)")
_NOW = re.compile(r"\b(?:current_timestamp|now)\b(\(\d+\))?(?:\(\))?", re.IGNORECASE)
# Where one line of SHOW CREATE TABLE ends and the next begins. Newlines in literals are printed as \\n.
_NEXT_LINE = re.compile(r",?\n(?=  (?:`|(?:PRIMARY |UNIQUE |FULLTEXT |SPATIAL )?KEY |CONSTRAINT )|\))")
_INTRODUCER = re.compile(r"\b_[a-z0-9]+\\?'")
# In a session of utf8mb4 such a literal may have other characters, or question marks.
_LOST = re.compile(r"\b_[a-z0-9]+'[^']*[^\x00-\x3e\x40-\x7f]")
_DEFAULT_LITERAL = re.compile(r" DEFAULT '([^']*)'")
_DEFAULT_BYTES = re.compile(r" DEFAULT (?:0x([0-9A-F]*)|'((?:[^']|'')*)')")
_ESCAPED = re.compile(r"\\(.)|''")
_ESCAPES = {"0": "\0", "n": "\n", "r": "\r"}
_BEYOND_ASCII = re.compile(r"[^\x00-\x3e\x40-\x7f]+")
_SCALE = re.compile(r"\(\d+,(\d+)\)")
_DIGITS = Context(prec=100)
_FLOAT_TEXT = ".6g"  # what a MySQL and a MariaDB tell of a FLOAT; a TiDB tells all digits
_KINDS = frozenset({"stored", "virtual"})
_IMPLIED = ("default_generated", "invisible", "virtual generated", "stored generated")


@dataclass(frozen=True)
class ColumnFacts:
    """One column; `name` is as the server spells it."""

    name: str
    type: str
    nullable: bool
    default: str | None
    charset: str | None
    collation: str | None
    extra: str
    generated: str  # its kind with the expression, where the server tells it; empty for an ordinary column
    comment: str

    @property
    def kind(self) -> ColumnType | None:
        """The type itself; None where it is unknown."""
        return printed_type(self.type)


@dataclass(frozen=True)
class Structure:
    """Columns in order; indexes and foreign keys as sets of their descriptions."""

    columns: tuple[ColumnFacts, ...]
    primary_key: tuple[str, ...]
    indexes: frozenset[str]
    foreign_keys: frozenset[str]

    def column(self, name: str) -> ColumnFacts:
        """The column of that name."""
        return next(column for column in self.columns if column.name == name)


@reads_answers
def read(connection: Connection[Cursor], flavor: Flavor, table: TableName, rename: Rename) -> Structure:
    """The structure of a table; foreign keys name their parent as `rename` gives it."""
    return Structure(
        columns=_columns(connection, flavor, table),
        primary_key=tuple(
            name
            for (name,) in _rows(
                connection,
                "SELECT column_name FROM information_schema.statistics"
                " WHERE table_schema = %s AND table_name = %s AND index_name = 'PRIMARY' ORDER BY seq_in_index",
                table,
            )
        ),
        indexes=_indexes(connection, table),
        foreign_keys=_foreign_keys(connection, table, rename),
    )


def differences(source: Structure, target: Structure, *, same_flavor: bool, respells: bool = False) -> list[str]:
    """What differs, in words; empty when the structures are equal. `respells`: the target does (`Dialect`)."""
    found: list[str] = []
    names = [column.name for column in source.columns]
    target_names = [column.name for column in target.columns]
    if names != target_names:
        found.append(f"columns are {', '.join(names)} at the source, {', '.join(target_names)} at the target")
    by_name = {column.name: column for column in target.columns}
    for column in source.columns:
        other = by_name.get(column.name)
        if other is not None:
            found += _column_differences(column, other, same_flavor=same_flavor, respells=respells)
    for kind, ours, theirs in (
        ("index", source.indexes, target.indexes),
        ("foreign key", source.foreign_keys, target.foreign_keys),
    ):
        found += [f"{kind} only at the source: {text}" for text in sorted(ours - theirs)]
        found += [f"{kind} only at the target: {text}" for text in sorted(theirs - ours)]
    return found


@reads_answers
def tables(connection: Connection[Cursor], schema: str) -> list[TableName]:
    """The base tables of a schema."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT table_name FROM information_schema.tables"
            " WHERE table_schema = %s AND table_type = 'BASE TABLE' ORDER BY table_name",
            (schema,),
        )
        return [TableName(schema, str(name)) for (name,) in cursor.fetchall()]


def _column_differences(source: ColumnFacts, target: ColumnFacts, *, same_flavor: bool, respells: bool) -> list[str]:
    found = []
    kinds = {source.kind, target.kind}
    json_as_text = not same_flavor and len(kinds) > 1 and all(kind and may_hold_documents(kind) for kind in kinds)
    fields = ["nullable", "default", "extra", "comment"]
    if not json_as_text:
        fields += ["type", "charset"]
    if same_flavor:
        fields += ["collation"] if respells else ["collation", "generated"]
    for field in fields:
        ours, theirs = getattr(source, field), getattr(target, field)
        if respells and field == "type":
            ours = _without_width(ours.removesuffix(" zerofill"))
            theirs = escaped_type(theirs)
        elif respells and field == "default":
            ours, theirs = (_plain_default(source, each) for each in (ours, theirs))
        elif not same_flavor and field == "default" and source.kind is not None and source.kind.limits_bytes:
            ours, theirs = (each and _BEYOND_ASCII.sub("?", each) for each in (ours, theirs))
        elif field == "generated" and {ours, theirs} & _KINDS:  # one side does not tell the expression
            ours, theirs = (each.partition(" ")[0] for each in (ours, theirs))
        elif respells and field == "extra":
            ours = ours.removesuffix("invisible").rstrip()
        if ours != theirs:
            found.append(f"column {source.name}: {field} is {ours!r} at the source, {theirs!r} at the target")
    if bool(source.generated) != bool(target.generated):
        found.append(f"column {source.name} is generated on one side only")
    return found


def _plain_default(column: ColumnFacts, default: str | None) -> str | None:
    """A default in a form that does not depend on its spelling; of bytes a TiDB's text does not tell which they are."""
    kind = column.kind
    if default is None or kind is None:
        return default
    if kind.limits_bytes:
        return ""
    if kind.pads_with_spaces or kind.has_members:
        return default.rstrip(" ")
    if kind.operand == "year" and is_decimal(default):
        year = int(default)
        century = 2000 if year < 70 else 1900 if year < 100 else 0
        return "0" if year in {0, 2000} else str(century + year)  # 0 is the year 0, and '0' is 2000
    if kind.is_integer or kind.is_float or kind.operand == "decimal":
        try:
            number = Decimal(default)
        except ArithmeticError:
            return default  # an expression
        if kind.is_single:
            number = Decimal(f"{float(number):{_FLOAT_TEXT}}")
        scale = _SCALE.search(column.type)
        if scale is not None:
            number = number.quantize(Decimal(1).scaleb(-int(scale[1])), ROUND_HALF_UP, _DIGITS)
        return format(number.normalize(_DIGITS), "f") if number else "0"
    if kind.is_temporal:
        whole, _, fraction = default.partition(".")
        digits = fraction.rstrip("0")
        return f"{whole}.{digits}" if digits else whole.removesuffix(" 00:00:00")
    return default


def _rows(connection: Connection[Cursor], query: str, table: TableName) -> Sequence[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, (table.schema, table.table))
        return cursor.fetchall()


def _columns(connection: Connection[Cursor], flavor: Flavor, table: TableName) -> tuple[ColumnFacts, ...]:
    version = version_number(_version(connection))
    expressions = "generation_expression" if dialect(flavor, version).tells_generation_expressions else "NULL"
    rows = _rows(
        connection,
        "SELECT column_name, column_type, is_nullable, column_default, character_set_name, collation_name, extra,"
        f" {expressions}, column_comment FROM information_schema.columns"
        " WHERE table_schema = %s AND table_name = %s ORDER BY ordinal_position",
        table,
    )
    printed = _printed(connection, table) if rows and dialect(flavor).shows_expressions else []
    return tuple(column_facts(row, printed, flavor, version) for row in rows)


def column_facts(row: Sequence[Any], printed: Sequence[str], flavor: Flavor, version: int) -> ColumnFacts:
    """What a row of information_schema.columns says; `printed` has the lines of a MySQL's SHOW CREATE TABLE."""
    name, type_, nullable, default, charset, collation, extra, expression, comment = row
    # Here a default is the value itself, no SQL. CURRENT_TIMESTAMP is a text, except in a TIMESTAMP or DATETIME.
    plain, kind = not dialect(flavor, version).prints_defaults_as_sql, printed_type(type_)
    traits = extra.lower()
    if expression:
        expression = _as_printed(expression, printed, name, " GENERATED ALWAYS AS ")
    if default is not None and "default_generated" in traits:
        default = _as_printed(default, printed, name, " DEFAULT ")
    elif default is not None and printed and kind is not None and kind.is_moment:
        default = _printed_literal(printed, name) or default
    elif default is not None and printed and kind is not None and kind.limits_bytes:
        told = _printed_bytes(printed, name)
        default = default if told is None else told
    stored = "stored" in traits or "persistent" in traits
    generated = "stored" if stored else "virtual" if "virtual" in traits else ""
    as_expression = "default_generated" in traits or (
        plain and default is not None and kind is not None and kind.is_timed and _NOW.fullmatch(default) is not None
    )
    return ColumnFacts(
        name=name,
        type=_without_width(type_),
        nullable=nullable == "YES",
        default=_default(default, plain=plain, expression=as_expression),
        charset=charset and utf8mb3_name(charset),
        collation=collation and utf8mb3_name(collation),
        extra=_extra(traits),
        generated=f"{generated} {expression or ''}".strip(),
        comment=comment,
    )


def _version(connection: Connection[Cursor]) -> str:
    """As the server's greeting tells it."""
    return str(cast(Any, connection).get_server_info())


@reads_answers
def _printed(connection: Connection[Cursor], table: TableName) -> list[str]:
    """The lines of SHOW CREATE TABLE, one for each column and index."""
    query = f"SHOW CREATE TABLE {table.sql}"
    with connection.cursor() as cursor:
        cursor.execute(query)
        found = cursor.fetchone()
        text = "" if found is None else str(found[1])
        if _LOST.search(text):
            text = _undecoded(cursor, query)
    return [line.strip() for line in _NEXT_LINE.split(text.partition("(\n")[2])] if text else []


@reads_answers
def _undecoded(cursor: Cursor, query: str) -> str:
    """The same where literals of expressions are of another character set: each of their bytes as `\\xe9`."""
    cursor.execute("SELECT @@SESSION.character_set_results")
    (usual,) = cast(Any, cursor.fetchone())
    cursor.execute("SET SESSION character_set_results = binary")
    cursor.execute(query)
    shown = cast(Any, cursor.fetchone())[1]
    cursor.execute("SET SESSION character_set_results = %s", (usual,))
    return cast(bytes, shown).decode(errors="backslashreplace")


def _as_printed(expression: str, printed: Sequence[str], name: str, words: str) -> str:
    """An expression with literals whose character set may be told in two ways, as SHOW CREATE TABLE tells it."""
    if _INTRODUCER.search(expression):
        for line in printed:
            if line.startswith(start := f"{Ident(name).sql} ") and words in line:
                return line[len(start) :].partition(words)[2]
    return expression


def _printed_literal(printed: Sequence[str], name: str) -> str | None:
    line = next(line for line in printed if line.startswith(f"{Ident(name).sql} "))
    found = _DEFAULT_LITERAL.search(line)
    return None if found is None else found[1]


def _default(default: str | None, *, plain: bool, expression: bool) -> str | None:
    """The default as its value, or as SQL if it is an `expression`; `plain` if the server tells values, not SQL."""
    if default is None:
        return None
    if not plain:
        if default == "NULL":
            return None
        if default.startswith("'"):
            return _literal(default[1:-1])
    elif not expression:
        return default
    return _now(default).replace("\\'", "'")


def _without_width(type_: str) -> str:
    """Without the width in which a client shows whole numbers."""
    kind = printed_type(type_)
    return _WIDTH.sub("", type_, count=1) if kind is not None and kind.display_width else type_


def _literal(text: str) -> str:
    """The value of a literal as servers print it; without the quotes."""
    return _ESCAPED.sub(lambda found: _ESCAPES.get(found[1], found[1]) if found[1] else "'", text)


def _printed_bytes(printed: Sequence[str], name: str) -> str | None:
    """A default of bytes, one character for each."""
    start = f"{Ident(name).sql} "
    found = _DEFAULT_BYTES.search(next(line for line in printed if line.startswith(start)), len(start))
    if found is None:
        return None
    return (bytes.fromhex(found[1]) if found[2] is None else _literal(found[2]).encode()).decode("latin-1")


def _now(text: str) -> str:
    return _NOW.sub(lambda match: "current_timestamp" + (match[1] or ""), text)


def _extra(traits: str) -> str:
    invisible = "invisible" in traits
    for word in _IMPLIED:
        traits = traits.replace(word, "")
    rest = " ".join(_now(traits).replace(",", " ").replace("persistent", "").split())
    return f"{rest} invisible".strip() if invisible else rest


def _indexes(connection: Connection[Cursor], table: TableName) -> frozenset[str]:
    text = _version(connection)
    expression = "expression" if dialect(flavor_of(text), version_number(text)).tells_index_expressions else "NULL"
    rows = _rows(
        connection,
        f"SELECT index_name, non_unique, index_type, column_name, sub_part, collation, {expression}"
        " FROM information_schema.statistics WHERE table_schema = %s AND table_name = %s"
        " ORDER BY index_name, seq_in_index",
        table,
    )
    printed = _printed(connection, table) if any(function is not None for *_, function in rows) else []
    parts: dict[tuple[str, str], list[str]] = {}
    for name, non_unique, index_type, column, prefix, direction, function in rows:
        kind = index_type if index_type in {"FULLTEXT", "SPATIAL"} else "INDEX" if int(non_unique) else "UNIQUE"
        if column is None:
            lines = [line for line in printed if f"KEY {Ident(name).sql} (" in line]
            part = lines[0] if lines and _INTRODUCER.search(function) else f"({function})"
        else:
            part = Ident(column).sql
        # A spatial index reports the length of its internal prefix.
        length = "" if prefix is None or kind == "SPATIAL" else f"({prefix})"
        parts.setdefault((kind, name), []).append(part + length + (" DESC" if direction == "D" else ""))
    return frozenset(f"{kind} {name} ({', '.join(columns)})" for (kind, name), columns in parts.items())


def _foreign_keys(connection: Connection[Cursor], table: TableName, rename: Rename) -> frozenset[str]:
    usage = "information_schema.key_column_usage WHERE table_schema = %s AND table_name = %s"
    if not _rows(connection, f"SELECT 1 FROM {usage} AND referenced_table_name IS NOT NULL LIMIT 1", table):
        return frozenset()  # the question below has MariaDB open every table of the server
    rows = _rows(
        connection,
        "SELECT k.constraint_name, k.column_name, k.referenced_table_schema, k.referenced_table_name,"
        " k.referenced_column_name, r.update_rule, r.delete_rule"
        " FROM information_schema.key_column_usage k JOIN information_schema.referential_constraints r"
        " ON r.constraint_schema = k.constraint_schema AND r.constraint_name = k.constraint_name"
        " AND r.table_name = k.table_name"
        " WHERE k.table_schema = %s AND k.table_name = %s AND k.referenced_table_name IS NOT NULL"
        " ORDER BY k.constraint_name, k.ordinal_position",
        table,
    )
    keys: dict[str, tuple[list[str], list[str], str]] = {}
    for name, column, parent_schema, parent, parent_column, on_update, on_delete in rows:
        # RESTRICT and NO ACTION are the same to InnoDB, and the two flavours name different ones as the default.
        rules = f"{on_update} {on_delete}".replace("NO ACTION", "RESTRICT")
        target = rename(TableName(parent_schema, parent))
        columns, parent_columns, _ = keys.setdefault(name, ([], [], f"{target.sql} {rules}"))
        columns.append(column)
        parent_columns.append(parent_column)
    return frozenset(
        f"({', '.join(columns)}) -> ({', '.join(parents)}) of {rest}" for columns, parents, rest in keys.values()
    )
