"""The statements that make the target's rows those of the sources; nothing here executes them.

    row of a keyed table      only at the target    DELETE by its key
                              only at a source      INSERT
                              on both sides         UPDATE by its key, of the columns that differ
    row of another table      counted: DELETE by the hash of its text, as the comparison computes it, so that exactly
                              one of several equal rows goes; and INSERT

If the target computes values in the session that writes a row, it computes them at UTC here. If the source's server has
another zone, such a row gets the reason instead of a statement.

Columns that are not compared keep their values: those that only the target has, and those that a person has left out
(`--ignore-columns`). Rows that can't be restored exactly then get the reason instead of a statement: a row that is only
at a source which has values in columns that were not read, and any row without a key.

Values of unique keys may have changed places, and no order of UPDATEs restores them. So if the target has unique keys
besides the primary key, and rows are compared whole, rows are written by REPLACE. A row that REPLACE removes is itself
among the differences, and is written, too. With `--where` it may not be, so REPLACE is never written, and a collision
stops the statement. The session sets foreign_key_checks = 0, which keeps rows that refer to a replaced row.

Deletions come first: a surplus row may hold a unique value that a missing row needs.

Where rows that no source has may be meant to stay (`dm.tools.diff.kept_rows`), their DELETEs are comments, and there is
no REPLACE, which could remove such a row.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from dm.atomic_file import create_new
from dm.changes.statement import lenient_script
from dm.dumpfiles.literals import typed_tree
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.dialect import dialect
from dm.mysql.equality.checksum import has_text
from dm.mysql.equality.values import ComparedValue
from dm.mysql.sql.json_literal import NOTHING, json_expression
from dm.mysql.types.members import equal_members
from dm.session.state import CLIENT_HEAD
from dm.tools.diff.table import ComparedTable, TableAt, quoted_columns

Values = tuple[bytes | None, ...]


_NOT_WHOLE = "columns are left out that the sources have, so a row that is only there can't be written whole"
_NOT_KNOWN = "not all columns are compared, and without a key that is compared they are all that tells rows apart"
_FILTERED = "with --where, a row without a key that only one side shows may be another one that has changed"
_NO_TEXT = "no server can compute what its rows are known by, and it has no key"
_COMPUTED = "only columns differ that the target computes by itself"
_ZONED = (
    "the target computes columns, keys or CHECKs of it in the time zone of the session that writes the row, and the"
    " source's is not UTC, in which these statements are executed"
)
_NAMESAKES = "a TiDB takes no member for the one with an empty name, and the row is not compared whole"


@dataclass(frozen=True, slots=True)
class Fix:
    """What one difference needs; each statement without its end."""

    deletions: tuple[bytes, ...] = ()
    updates: tuple[bytes, ...] = ()
    insertions: tuple[bytes, ...] = ()
    impossible: str = ""  # why there is no statement
    kept: tuple[bytes, ...] = ()  # deletions that are not to be executed, since the row may be meant to stay
    why_kept: str = ""

    @property
    def statements(self) -> tuple[bytes, ...]:
        """All of them, in their order."""
        return in_order([self])


def in_order(fixes: Sequence[Fix]) -> tuple[bytes, ...]:
    """The statements of several: what takes rows and values away comes first."""
    kinds = ((fix.deletions for fix in fixes), (fix.updates for fix in fixes), (fix.insertions for fix in fixes))
    return tuple(statement for kind in kinds for statements in kind for statement in statements)


def fix_of(
    table: ComparedTable,
    ours: tuple[TableAt, Values] | None,
    theirs: Values | None,
    missing: Counter[bytes],
    extra: Counter[bytes],
) -> Fix:
    """The statements for one row: as it is at a source, at the target, and how many times it is missing or too much."""
    fix = _fix_of(table, ours, theirs, missing, extra)
    return Fix(impossible=_ZONED) if table.zoned and (fix.updates or fix.insertions) else fix


def _fix_of(
    table: ComparedTable,
    ours: tuple[TableAt, Values] | None,
    theirs: Values | None,
    missing: Counter[bytes],
    extra: Counter[bytes],
) -> Fix:
    try:
        if not table.keyed:
            return _counted(table, ours, missing, extra)
        if ours is None:
            return Fix() if theirs is None else _surplus(table, _deletion(table, theirs))
        if theirs is not None:
            return _changed(table, *ours, theirs)
        return Fix(impossible=_NOT_WHOLE) if table.unread else Fix(insertions=(_insertion(table, *ours),))
    except DMError as error:
        return Fix(impossible=str(error))


def _counted(
    table: ComparedTable, ours: tuple[TableAt, Values] | None, missing: Counter[bytes], extra: Counter[bytes]
) -> Fix:
    if table.filtered or not table.whole:
        return Fix(impossible=_FILTERED if table.filtered else _NOT_KNOWN)
    fix = Fix()
    if extra:
        text = table.target.text
        if text is None:
            return Fix(impossible=_NO_TEXT)
        condition = f"{has_text(text, next(iter(extra)))} LIMIT {extra.total()}"
        fix = _surplus(table, f"DELETE FROM {table.target.name.sql} WHERE {condition}".encode())
    insertions = [] if ours is None else [_insertion(table, *ours)] * missing.total()
    return replace(fix, insertions=tuple(insertions))


def _surplus(table: ComparedTable, deletion: bytes) -> Fix:
    """For rows that only the target has."""
    return Fix(kept=(deletion,), why_kept=table.kept) if table.kept else Fix(deletions=(deletion,))


def _changed(table: ComparedTable, side: TableAt, ours: Values, theirs: Values) -> Fix:
    if table.replaces:
        return Fix(insertions=(_insertion(table, side, ours),))
    names = _columns(table.target)
    differing = [at for at in range(len(names)) if not _same(table, side, at, ours, theirs)]
    if dialect(table.flavor).compares_members_by_name and any(
        _is_enum(side.row[at]) and b"0" in (ours[at], theirs[at]) for at in differing
    ):
        # It compares such values by their names, and would leave the column as it is.
        if not table.whole:
            return Fix(impossible=_NAMESAKES)
        return Fix(deletions=(_deletion(table, theirs),), insertions=(_insertion(table, side, ours),))
    written = _written(table, side, ours, frozenset(names[at] for at in differing))
    if not written.columns:
        return Fix(impossible=_COMPUTED)
    # An UPDATE would give these the time at which it is executed.
    own = [f"{Ident(name).sql} = {Ident(name).sql}".encode() for name in table.stamped if name not in written.columns]
    assignments = [
        Ident(name).sql.encode() + b" = " + literal
        for name, literal in zip(written.columns, written.literals, strict=True)
    ]
    update = _update(table, theirs, [*assignments, *own])
    sql = update if written.strict else lenient_script(table.flavor, update)
    values = [at for at, name in enumerate(names) if side.row[at].type and name in written.columns]
    if all(_is_document(side.row[at]) and _may_be_equal(ours[at], theirs[at]) for at in values):
        # A server that compares documents by value would leave the row as it is (`dm.changes.statement`).
        quoted = [Ident(name).sql for name in written.columns]
        others = [f"{name} = JSON_ARRAY({name})".encode() for name in quoted]
        sql = _update(table, theirs, [*others, *own]) + b";\n" + sql
    return Fix(updates=(sql,))


def _same(table: ComparedTable, side: TableAt, at: int, ours: Values, theirs: Values) -> bool:
    return side.row[at].canonical(ours[at]) == table.target.row[at].canonical(theirs[at])


def _may_be_equal(one: bytes | None, other: bytes | None) -> bool:
    """Whether two documents may be equal by value, of whatever types their numbers are."""
    if one is None or other is None:
        return False
    try:
        return bool(json.loads(one, parse_int=float) == json.loads(other, parse_int=float))
    except ValueError:
        return True  # a number that is none here


def _columns(side: TableAt) -> list[str]:
    """Of each part the column: what counts besides a value stands after it."""
    found = list[str]()
    for part in side.row:
        name = found[-1] if found else ""
        beside = name and part.label in (f"{name} (number)", f"{name} (types)", f"{name} (a member)")
        found.append(name if beside else part.label)
    return found


@dataclass(frozen=True, slots=True)
class _Written:
    """Columns with their literals."""

    columns: tuple[str, ...]
    literals: tuple[bytes, ...]
    strict: bool  # whether a strict mode takes them: it refuses an ENUM's error value


def _written(table: ComparedTable, side: TableAt, values: Values, wanted: frozenset[str]) -> _Written:
    columns, literals, strict = [], [], True
    for at, (part, column) in enumerate(zip(side.row, _columns(table.target), strict=True)):
        if part.type is None or column not in wanted or column in table.generated:
            continue
        columns.append(column)
        strict = strict and not (_is_enum(part) and values[at] == b"0")
        literals.append(_document(side, at, values) if part.type.is_document else _literal(part, values[at]))
    return _Written(tuple(columns), tuple(literals), strict)


def _insertion(table: ComparedTable, side: TableAt, values: Values) -> bytes:
    written = _written(table, side, values, frozenset(_columns(table.target)))
    verb = "REPLACE" if table.replaces else "INSERT"
    start = f"{verb} INTO {table.target.name.sql} ({quoted_columns(written.columns)}) VALUES ("
    sql = start.encode() + b", ".join(written.literals) + b")"
    return sql if written.strict else lenient_script(table.flavor, sql)


def _update(table: ComparedTable, values: Values, assignments: Sequence[bytes]) -> bytes:
    start = f"UPDATE {table.target.name.sql} SET ".encode()
    return start + b", ".join(assignments) + b" WHERE " + _by_key(table, values)


def _deletion(table: ComparedTable, values: Values) -> bytes:
    return f"DELETE FROM {table.target.name.sql} WHERE ".encode() + _by_key(table, values)


def _by_key(table: ComparedTable, values: Values) -> bytes:
    """The condition that finds a row of the target."""
    target, names, conditions = table.target, _columns(table.target), []
    for at in target.key:
        part = target.row[at]
        if part.type is None:
            continue
        name, literal = Ident(names[at]).sql.encode(), _literal(part, values[at])
        if not part.trimmed:
            conditions.append(equal_members(name, literal) if part.type.has_members else name + b" = " + literal)
        if (part.trimmed or part.type.is_text) and part.text is not None:
            # Another spelling is another row, which an earlier statement may have put into this one's place.
            conditions.append(part.text.encode() + b" = " + literal)
    return b" AND ".join(conditions)


def _is_enum(part: ComparedValue) -> bool:
    return part.type is not None and part.type.is_enum


def _is_document(part: ComparedValue) -> bool:
    return part.type is not None and part.type.is_document


def _literal(part: ComparedValue, value: bytes | None) -> bytes:
    """What was read as a literal."""
    assert part.type is not None, "a part that is no value of its own has no literal"
    return part.type.encoder(part.charset)(None if value is None else part.type.value_of(value))


def _document(side: TableAt, at: int, values: Values) -> bytes:
    """A document, with the types that its text leaves out where they were read."""
    text = values[at]
    following = side.row[at + 1] if at + 1 < len(side.row) else None
    listed = following is not None and following.label.endswith(" (types)")
    types = side.row[at + 1].canonical(values[at + 1]) if listed else None
    if text is None or types is None or types == NOTHING:
        return _literal(side.row[at], text)
    return json_expression(typed_tree(text, types), side.row[at].label)


class Fixes(Protocol):
    """Where the statements go that make the target equal."""

    def held(self) -> AbstractContextManager[None]:
        """Around the comparison."""
        ...

    def begin(self, tables: Collection[TableName], /) -> None:
        """These are compared from their beginning, perhaps again."""
        ...

    def write(self, table: TableName, fixes: Sequence[Fix], /) -> str:
        """Take the statements of some rows; gives the file where they are, if they are in one."""
        ...


class FixFiles:
    """The files of `--fix-sql`, one per table with differences; a directory belongs to one comparison at a time."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._begun: set[Path] = set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Keep other comparisons from writing there meanwhile; raises DMError where one does."""
        directory = self._directory
        try:
            directory.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise _unwritable(directory, error) from error
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DMError("diff-fix-busy", directory=directory) from error
            yield
        finally:
            os.close(descriptor)  # the kernel does it for a process that is killed

    def begin(self, tables: Iterable[TableName]) -> None:
        """Remove what an earlier comparison has said of these tables: it may be wrong by now. Raises DMError."""
        for table in tables:
            path = self._path(table)
            self._begun.discard(path)
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise _unwritable(path, error) from error

    def write(self, table: TableName, fixes: Sequence[Fix]) -> str:
        """Add statements, deletions first; gives the file, and nothing where there are none. Raises DMError."""
        statements, comments = in_order(fixes), list(_comments(fixes))
        path = self._path(table)
        if statements or comments:
            begun = path in self._begun
            try:
                if not begun:
                    path.unlink(missing_ok=True)
                with path.open("ab") if begun else os.fdopen(create_new(path), "wb") as file:
                    file.write(b"" if begun else CLIENT_HEAD)
                    file.writelines(comments)
                    file.writelines(part for each in statements for part in (each, b";\n"))
            except OSError as error:
                raise _unwritable(path, error) from error
            self._begun.add(path)
        return str(path) if path in self._begun else ""

    def _path(self, table: TableName) -> Path:
        return self._directory / f"{_file_name(table)}.sql"


def _comments(fixes: Sequence[Fix]) -> Iterator[bytes]:
    """What is not executed, with the reason; a line end in a value begins a comment of its own."""
    by_reason: dict[str, list[bytes]] = {}
    for fix in fixes:
        if fix.kept:
            by_reason.setdefault(fix.why_kept, []).extend(fix.kept)
    for why, deletions in by_reason.items():
        for text in (f"Not deleted, since {why}".encode(), *(each + b";" for each in deletions)):
            yield b"".join(b"-- " + line + b"\n" for line in text.split(b"\n"))


def _unwritable(path: Path, error: OSError) -> DMError:
    return DMError("diff-fix-unwritable", file=path, cause=error.strerror or str(error))


def _file_name(table: TableName) -> str:
    """A name for a file: what has a meaning for a file system is written as its code."""
    return "".join(char if char.isalnum() or char in "_-." else f"%{ord(char):04x}" for char in str(table))
