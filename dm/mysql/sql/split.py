"""Splitting a DDL statement into pieces with one operation each, as far as the target can execute them one by one.

A statement is cut by offsets and never regenerated from the parsed form: a tree does not hold everything that a
statement says. Each part is then parsed again from scratch, and must do exactly the operations that it was cut for.

Some operations of one ALTER TABLE must stay together. A server carries out an ALTER TABLE as a whole: it drops and
changes what exists, then adds, then builds indexes, and names in a later operation may mean things from before an
earlier one. Separate operations are equivalent only under three conditions. No operation needs what a later one makes.
None makes what a later one removes. None passes through a state that the server refuses (a foreign key without its
index, AUTO_INCREMENT without a key, no primary key). In doubt operations stay together: one statement less does no
harm, a statement that fails alone does.

Each operation is compared with each later one. A statement with more than `MOST_COMPARED` of them stays whole, else one
that is made for it would take minutes.

Dependences that only the table's structure shows (a generated column over a dropped one) are not seen here: the target
refuses such a piece with its own error.

A TiDB checks each operation of a statement against the table as it is before the statement. It takes no DROP INDEX with
an ADD INDEX of the same name, and no DROP COLUMN with the DROP INDEX that sets the column free. There (`singly`)
operations on indexes and columns stay together only where names bind them, and a DROP INDEX goes before the operations
on columns, as in a server that carries out an ALTER as a whole. Where it refuses the first of them, the syncer tries
the whole.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, cast

from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.cursor import Clause
from dm.mysql.sql.grammar import INDEX_KINDS, INDEX_WORDS, Parsed, parse
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
    ConvertCharset,
    CreateDatabase,
    CreateTable,
    DropColumn,
    DropConstraint,
    DropForeignKey,
    DropIndex,
    DropPrimaryKey,
    ModifyColumn,
    Operation,
    RenameColumn,
    RenameIndex,
    RenameTable,
    TableOptions,
)
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.token import tokenize


def _same_operations(found: tuple[Operation, ...], wanted: tuple[AlterOperation | RenameTable, ...]) -> bool:
    """Whether a statement does what it was cut for; a RENAME may start from another name by now."""
    return len(found) == len(wanted) and all(
        one == other
        or (
            isinstance(one, RenameTable)
            and isinstance(other, RenameTable)
            and [target for _, target in one.pairs] == [target for _, target in other.pairs]
        )
        for one, other in zip(found, wanted, strict=True)
    )


def _drop_tables(parsed: Parsed, context: SourceContext) -> list[Piece]:
    tail = f" {parsed.tail}" if parsed.tail else ""
    return [Piece.of(f"{parsed.head} {parsed.text[ref.start : ref.end]}{tail}", context) for ref in parsed.names]


def _part(parsed: Parsed, run: Sequence[int], head: str, context: SourceContext) -> Piece:
    chosen = [parsed.specifications[index] for index in run]
    text = f"{head} {', '.join([one.source for one in chosen] + list(parsed.whole_options))}"
    piece = Piece.of(text, context)
    if not _same_operations(piece.operations, tuple(one.operation for one in chosen)):
        raise DMError(
            "ddl-splice-mismatch", statement=parsed.text, why="a part of it reads differently when it stands alone"
        )
    return piece


def _alter_table(parsed: Parsed, runs: Sequence[Sequence[int]], context: SourceContext) -> list[Piece]:
    subject = parsed.names[0]
    before = parsed.head[: subject.start - parsed.head_at]
    after = parsed.head[subject.end - parsed.head_at :]
    name = parsed.text[subject.start : subject.end]
    pieces = []
    for run in runs:
        pieces.append(_part(parsed, run, f"{before}{name}{after}", context))
        for operation in pieces[-1].operations:
            if isinstance(operation, RenameTable):
                name = operation.pairs[-1][1].sql
    return pieces


def _runs(operations: Sequence[AlterOperation | RenameTable], *, singly: bool) -> list[list[int]]:
    """The places of those operations that go together."""
    order = indexes_first(operations) if singly else list(range(len(operations)))
    found = groups([operations[place] for place in order], singly=singly)
    return [[order[at] for at in run] for run in found]


def _replaced(parsed: Parsed, context: SourceContext) -> list[Piece]:
    """CREATE OR REPLACE as the DROP that it begins with, and the CREATE; a filter takes both or none."""
    name = parsed.names[0]
    kind = parsed.verb.removeprefix("CREATE ")
    words = [token for token in tokenize(parsed.text, context) if token.end <= name.start]
    at = next(place for place, token in enumerate(words) if token.upper == "REPLACE")
    start, end = words[at - 1].start, words[at].end
    create = parsed.text[:start] + parsed.text[end:].lstrip()
    drop = f"DROP {kind} IF EXISTS {parsed.text[name.start : name.end]}"
    events = Piece.of(parsed.text, context).events
    return [replace(Piece.of(text, context), whole_events=events) for text in (drop, create)]


def split(text: str, context: SourceContext, *, singly: bool = False, replaces: bool = True) -> list[Piece]:
    """The pieces of one DDL statement, in the order in which they must run.

    `singly`: for a target that takes few operations of an ALTER together, as a TiDB does. `replaces`:
    whether it has CREATE OR REPLACE for tables and schemas, as MariaDB alone does.
    """
    parsed = parse(text, context)
    first = parsed.operations[0] if parsed.operations else None
    if not replaces and isinstance(first, CreateTable | CreateDatabase) and first.or_replace:
        return _replaced(parsed, context)
    if parsed.verb == "DROP TABLE" and len(parsed.operations) > 1:
        return _drop_tables(parsed, context)
    if parsed.verb == "ALTER TABLE" and len(parsed.specifications) > 1 and not parsed.partitioned:
        runs = _runs([one.operation for one in parsed.specifications], singly=singly)
        if len(runs) > 1:
            return _alter_table(parsed, runs, context)
    return [Piece.of(parsed.text.strip(), context)]


def separate(piece: Piece) -> list[Piece]:
    """Each operation of a piece alone, for a filter that wants only some of them."""
    parsed = parse(piece.text, piece.context)
    if parsed.verb != "ALTER TABLE" or len(parsed.specifications) < 2 or parsed.partitioned:
        return [piece]
    return _alter_table(parsed, [range(index, index + 1) for index in range(len(parsed.specifications))], piece.context)


_COLUMN_CHANGES = ModifyColumn | ChangeColumn | DropColumn
_COLUMN_WORK = AddColumn | ModifyColumn | ChangeColumn | DropColumn | AlterDefault
_CONSTRAINT_DROPS = DropForeignKey | DropConstraint
MOST_COMPARED: Final = 512
_CHARSET_WORDS = ("CHARSET", "CHARACTER", "COLLATE")
_HARMLESS_OPTIONS = ("COMMENT", "AUTO_INCREMENT")


@dataclass(slots=True)
class _Effect:
    """Names of one operation, each as (kind, lower-case name)."""

    needs: set[tuple[str, str]] = field(default_factory=set)
    makes: set[tuple[str, str]] = field(default_factory=set)
    removes: set[tuple[str, str]] = field(default_factory=set)
    subject: tuple[str, str] | None = None  # the column, or the index, that the operation changes


def _mentioned(clause: Clause) -> set[tuple[str, str]]:
    """Every word in a clause that could be a column."""
    return {("column", token.text.lower()) for token in clause.tokens if token.kind in ("word", "name")}


def _index_name(operation: AddIndex) -> str | None:
    if operation.name is not None:
        return operation.name.lower()
    words = operation.definition.tokens
    at = 0
    if words and words[0].upper == "CONSTRAINT":
        at = 1 if words[1].upper in ("PRIMARY", "UNIQUE") else 2
    name = words[1].text.lower() if at == 2 else None
    while at < len(words) and words[at].upper in (*INDEX_KINDS, *INDEX_WORDS, "IF", "NOT", "EXISTS"):
        at += 1
    if at < len(words) and words[at].kind in ("word", "name") and words[at].upper not in ("USING", "TYPE"):
        return words[at].text.lower()
    return name


def _effect(operation: AlterOperation | RenameTable) -> _Effect:
    effect = _Effect()
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        effect.needs |= _mentioned(operation.definition)
        if operation.place.after is not None:
            effect.needs.add(("column", operation.place.after.lower()))
    if isinstance(operation, AddColumn):
        effect.makes.add(("column", operation.column.lower()))
    elif isinstance(operation, DropColumn):
        effect.removes.add(("column", operation.column.lower()))
    elif isinstance(operation, ModifyColumn | AlterDefault | AlterVisibility):
        effect.subject = ("column", operation.column.lower())
        effect.needs.add(effect.subject)
    elif isinstance(operation, ChangeColumn | RenameColumn):
        old, new = ("column", operation.column.lower()), ("column", operation.name.lower())
        effect.needs.add(old)
        effect.subject = old
        if old != new:
            effect.removes.add(old)
            effect.makes.add(new)
    elif isinstance(operation, AddIndex):
        effect.needs |= _mentioned(operation.definition)
        name = _index_name(operation)
        if name is not None:
            effect.makes.add(("index", name))
    elif isinstance(operation, AddForeignKey | AddCheck):
        effect.needs |= _mentioned(operation.definition)
    elif isinstance(operation, DropIndex):
        effect.removes.add(("index", operation.name.lower()))
    elif isinstance(operation, RenameIndex):
        effect.removes.add(("index", operation.index.lower()))
        effect.makes.add(("index", operation.name.lower()))
    elif isinstance(operation, AlterIndex):
        effect.subject = ("index", operation.index.lower())
        effect.needs.add(effect.subject)
    return effect


def column_kept(left_out: Sequence[Piece], executed: Sequence[Piece]) -> str:
    """A name that operations left out would free, and others give to a new column; empty where there is none.

    At a target that leaves them out the name is still the old column's. A statement that finds it there may count as
    done, and the old column's values would stand for the new one's.
    """
    freed = {name for each in _effects(left_out) for kind, name in each.removes if kind == "column"}
    made = {name for each in _effects(executed) for kind, name in each.makes if kind == "column"}
    return min(freed & made, default="")


def _effects(pieces: Sequence[Piece]) -> Iterator[_Effect]:
    for piece in pieces:
        for operation in piece.operations:
            yield _effect(cast("AlterOperation | RenameTable", operation))


def _words(operation: AlterOperation | RenameTable) -> set[str]:
    if isinstance(operation, AddColumn | ModifyColumn | ChangeColumn):
        return {token.upper for token in operation.definition.tokens}
    if isinstance(operation, TableOptions):
        return {token.upper for token in operation.options.tokens}
    return set()


def _needs_its_indexes(earlier: AlterOperation | RenameTable, later: AlterOperation | RenameTable) -> bool:
    """Whether the state between the two has other indexes than a server may ask for, or than the later one means."""
    pair = (earlier, later)
    if any(isinstance(one, DropPrimaryKey) for one in pair) and all(
        isinstance(one, DropPrimaryKey | AddIndex | AddForeignKey | _COLUMN_WORK) for one in pair
    ):
        return True
    if isinstance(earlier, DropIndex) and isinstance(
        later, AddIndex | AddForeignKey | RenameIndex | _COLUMN_CHANGES | _CONSTRAINT_DROPS
    ):
        return True
    if isinstance(earlier, _COLUMN_CHANGES) and isinstance(later, DropIndex | RenameIndex | _CONSTRAINT_DROPS):
        return True
    if isinstance(earlier, AddForeignKey) and isinstance(later, AddIndex | DropIndex):
        return True
    if isinstance(earlier, AddIndex | RenameIndex) and isinstance(later, DropColumn):
        return True  # dropping the column may drop the index that has this name now
    # A unique index that may replace the primary key can't be hidden.
    return isinstance(earlier, DropIndex | DropPrimaryKey) and isinstance(later, AlterIndex)


def _intermediate_refused(
    earlier: AlterOperation | RenameTable, later: AlterOperation | RenameTable, *, singly: bool
) -> bool:
    """Whether a server may refuse the state between the two, or reads the later one differently in it."""
    if any(isinstance(one, ConvertCharset) for one in (earlier, later)):
        return True
    if singly:
        # The column's going may have dropped or cut the index already.
        if isinstance(earlier, DropColumn) and isinstance(later, DropIndex | RenameIndex):
            return True
    elif _needs_its_indexes(earlier, later):
        return True
    earlier_words, later_words = _words(earlier), _words(later)
    if isinstance(later, AddIndex | _COLUMN_CHANGES) and earlier_words & {"AUTO_INCREMENT", "SERIAL"}:
        return not isinstance(earlier, TableOptions)
    for one, other, words in ((earlier, later, earlier_words), (later, earlier, later_words)):
        if isinstance(one, TableOptions):
            if words.intersection(_CHARSET_WORDS) and isinstance(other, AddColumn | ModifyColumn | ChangeColumn):
                return True
            if one is later and not words.intersection(_HARMLESS_OPTIONS):
                return True
    return False


def _depends(
    operations: Sequence[AlterOperation | RenameTable],
    effects: Sequence[_Effect],
    one: int,
    other: int,
    *,
    singly: bool,
) -> bool:
    earlier, later = effects[one], effects[other]
    if earlier.needs & later.makes or earlier.makes & later.removes:
        return True
    if isinstance(operations[one], DropColumn) and isinstance(operations[other], AddColumn):
        # In one statement the new column replaces the old one in the indexes; alone, dropping it drops them.
        return bool(earlier.removes & later.makes)
    if isinstance(operations[one], AddColumn) and later.subject in earlier.makes:
        return True
    if earlier.subject is not None and earlier.subject == later.subject:
        return True  # a new definition and ALTER COLUMN: the server decides which of the two counts
    if isinstance(operations[one], AddIndex | AddForeignKey | AddCheck) and later.subject in earlier.needs:
        return True
    # A dropped name means the old thing, unless an operation in between created it again.
    if later.subject in earlier.removes:
        return not any(later.subject in effect.makes for effect in effects[one:other])
    return _intermediate_refused(operations[one], operations[other], singly=singly)


def _lets_pass(operation: AlterOperation | RenameTable, drop: DropIndex) -> bool:
    """Whether the DROP INDEX may go before the operation: columns, and an index that gets its name."""
    if isinstance(operation, AddIndex):  # a foreign key may need another one before it lets go of the old one
        return _index_name(operation) == drop.name.lower()
    return isinstance(operation, _COLUMN_WORK)


def indexes_first(operations: Sequence[AlterOperation | RenameTable]) -> list[int]:
    """The operations' places in an order in which each DROP INDEX stands before the columns' operations."""
    order: list[int] = []
    for place, operation in enumerate(operations):
        at = len(order)
        if isinstance(operation, DropIndex):
            while at and _lets_pass(operations[order[at - 1]], operation):
                at -= 1
        order.insert(at, place)
    return order


def groups(operations: Sequence[AlterOperation | RenameTable], *, singly: bool = False) -> list[range]:
    """Split the operations, in order, into the smallest runs that can be carried out one after another."""
    if len(operations) > MOST_COMPARED:
        return [range(len(operations))]
    effects = [_effect(operation) for operation in operations]
    runs: list[range] = []
    start = end = 0  # of the open run
    for one in range(len(operations)):
        if one == end:
            if one:
                runs.append(range(start, end))
            start, end = one, one + 1
        # The furthest one that depends on this one brings all between them along.
        for other in range(len(operations) - 1, end - 1, -1):
            if _depends(operations, effects, one, other, singly=singly):
                end = other + 1
                break
    if operations:
        runs.append(range(start, end))
    return runs
