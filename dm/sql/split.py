"""Splitting a DDL statement into pieces with one operation each, as far as the target can execute them one by one.

A statement is cut by offsets and never regenerated from the parsed form: a tree does not hold everything that a
statement says. Each part is then parsed again from scratch, and must do exactly the operations that it was cut for.
`dependence.py` decides which operations stay together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from dm.errors import DMError
from dm.sql.context import SourceContext
from dm.sql.dependence import groups, indexes_first
from dm.sql.grammar import Parsed, parse
from dm.sql.operation import AlterOperation, CreateDatabase, CreateTable, Operation, RenameTable
from dm.sql.piece import Piece
from dm.sql.token import tokenize


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

    `singly`: for a target that takes few operations of an ALTER together, as a TiDB does (`dependence.py`). `replaces`:
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
