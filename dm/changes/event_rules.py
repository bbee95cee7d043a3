"""Which tables' rows may go to the target as row events: every rule, in one place, each with its reason in words.

The server that executes an event reads the bytes by its own columns. So the two tables must agree in everything that
these bytes, and their handling there, depend on. Where the task or a person wants more than the event does, rows go as
SQL. A table that a rule holds back loses only speed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dm.changes.before_images import found_by
from dm.changes.event_form import Applying, EventForm, Order, TableLook, events_allowed
from dm.changes.keys import table_key
from dm.changes.plan import PlanOptions, TablePlan
from dm.changes.row_keys import TargetTable
from dm.mysql.binlog.charset import same_charset
from dm.mysql.binlog.decode import RowDecoder
from dm.mysql.binlog.image_cut import packed_cut
from dm.mysql.binlog.image_proof import ProofStep, proof_of
from dm.mysql.binlog.row_events import RowEvents, Rows
from dm.mysql.binlog.table_map import TableMap, mismatch
from dm.mysql.binlog.value import Row
from dm.mysql.binlog.wire_type import WireCode
from dm.mysql.schema.charset import utf8mb3_name
from dm.mysql.schema.expressions import computes_otherwise
from dm.mysql.schema.table import Column, wire_columns

# MySQL's own primary key, while it is invisible: a server that has it on one side only takes it out of the event.
_GENERATED_KEY: Final = "my_row_id"
_OLD_TIMES: Final = frozenset({WireCode.TIMESTAMP, WireCode.DATETIME, WireCode.TIME})


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A source table and the table that its rows go to."""

    table_map: TableMap
    wire: Sequence[Column]  # the source's columns, as the binlog holds them
    target: TargetTable
    plan: TablePlan
    options: PlanOptions
    filtered: bool = False  # an expression filter chooses among its rows

    @property
    def columns(self) -> Iterator[tuple[Column, Column]]:
        """The columns of the two, side by side."""
        there = wire_columns(self.target.schema, self.options.flavor)
        return zip(self.wire, there, strict=True)


Rule = Callable[[RoutedTable], str]
"""Why the table's rows go as SQL; empty where this is no reason."""


def _session(pair: RoutedTable) -> str:
    return pair.options.no_events


def _filtered(pair: RoutedTable) -> str:
    return "an expression filter reads its rows" if pair.filtered else ""


def extracted(pair: RoutedTable) -> str:
    """Columns of the target that a route fills."""
    return "a route adds columns" if pair.plan.constants else ""


def unseen_triggers(pair: RoutedTable) -> str:
    """A server hides a table's triggers from an account without TRIGGER, as if there were none."""
    seen = pair.options.sees_triggers(pair.target.schema.name)
    return "" if seen else "the account may not see the target's triggers (it lacks TRIGGER)"


def _triggers(pair: RoutedTable) -> str:
    return "the target's table has triggers, which row events do not fire" if pair.target.triggers else ""


def _checks(pair: RoutedTable) -> str:
    """MySQL asks them of row events as of SQL; MariaDB 10.11 passes over them, and stores what they forbid."""
    return "the target's table has a CHECK, of which row events are not asked" if pair.target.checks else ""


def _lost_values(pair: RoutedTable) -> str:
    """MySQL finds rows of a table without a key by the hash of their values, from images in the same place.

    Where a long value becomes another one of the same length, the new one may overwrite the old before the two are
    compared, and the change is lost (9.7; by a key, rows are read into a place of their own).
    """
    if not pair.options.dialect.may_lose_long_values or pair.plan.keyed:
        return ""
    long = [target.name for _, target in pair.columns if target.type.outside]
    return f"without a key MySQL may lose a change of column {long[0]}" if long else ""


def settings(pair: RoutedTable) -> str:
    """What a person wants done otherwise."""
    if pair.options.insert_mode != "insert":
        return "insert-mode is replace"
    return "missing-row is count" if pair.options.missing_row != "pause" else ""


def differing(pair: RoutedTable) -> str:
    """Other columns, or another order of them."""
    there = wire_columns(pair.target.schema, pair.options.flavor)
    if [column.name.lower() for column in pair.wire] != [column.name.lower() for column in there]:
        return "source and target differ in their columns, or in the order of these"
    return ""


def _column(source: Column, target: Column) -> str:
    """In what the columns differ that the bytes depend on."""
    if source.type is not target.type:
        return f"types {source.base} and {target.base}"
    if source.type.value_size(source) != target.type.value_size(target):
        return "length"
    if source.unsigned != target.unsigned:
        return "sign"
    if source.charset != target.charset and not (
        source.charset and target.charset and same_charset(source.charset, target.charset)
    ):
        return f"character sets {source.charset} and {target.charset}"
    if source.members != target.members:
        return "members"
    if source.nullable != target.nullable:
        return "NULL"
    if source.name.lower() == _GENERATED_KEY and source.invisible != target.invisible:
        return "visibility"
    return "what is generated" if source.generated != target.generated else ""


def json_checks(pair: RoutedTable) -> str:
    """What the source asks too holds of each of its rows."""
    for source, target in pair.columns:
        if target.json_checked and not source.json_checked:
            return f"column {target.name} has a CHECK for JSON at the target alone, of which row events are not asked"
    return ""


def _expressions(pair: RoutedTable) -> str:
    """SQL has the target compute its columns; MariaDB stores what the source has computed.

    MySQL 9.7 computes them in either case. But by what another expression gave it finds no row of a keyless table.
    """
    for source, target in pair.columns:
        if computes_otherwise(source.expression or "", target.expression or "", comparable=True):
            return f"column {source.name} is computed by another expression"
    return ""


def _compared(pair: RoutedTable) -> str:
    """What the source has computed for a STORED column depends on how it compares texts, not only on the expression."""
    stored = pair.options.dialect.row_events_keep_stored and any(
        target.generated == "stored" for _, target in pair.columns
    )
    for source, target in pair.columns if stored else ():
        if target.charset is not None and not _same_collation(source, target):
            return f"column {source.name} has another collation, by which the source computes STORED columns"
    return ""


def _same_collation(source: Column, target: Column) -> bool:
    one, other = source.collation, target.collation
    return bool(one and other) and utf8mb3_name(str(one)) == utf8mb3_name(str(other))


def types(pair: RoutedTable) -> str:
    """Columns of one name that are not alike."""
    for source, target in pair.columns:
        difference = _column(source, target)
        if difference:
            return f"column {source.name} differs in {difference}"
    return ""


def _bytes(pair: RoutedTable) -> str:
    """What the binlog says of the columns, held against the target's."""
    why = mismatch(pair.table_map, [target for _, target in pair.columns])
    return "" if why is None else f"the binlog does not fit the target's table: {why}"


def _nulls(pair: RoutedTable) -> str:
    for (source, _), nullable in zip(pair.columns, pair.table_map.nullable, strict=True):
        if source.nullable != nullable and not source.name.startswith("!hidden!"):
            return f"column {source.name} differs in NULL"
    return ""


def _provable(pair: RoutedTable) -> str:
    for wire, column in zip(pair.table_map.columns, pair.wire, strict=True):
        if wire.code in _OLD_TIMES:
            return f"column {column.name} has the format of times of an old version"
        if proof_of(wire, column, nullable=True) is None:
            return f"of column {column.name} only the server can judge the bytes"
    return ""


RULES: Final[tuple[Rule, ...]] = (
    _session,
    settings,
    _filtered,
    extracted,
    unseen_triggers,
    _triggers,
    _checks,
    differing,
    types,
    json_checks,
    _expressions,
    _compared,
    _lost_values,
    _bytes,
    _nulls,
    _provable,
)
"""In the order in which they are asked: each may rely on those before it."""


def hindrance(pair: RoutedTable) -> str:
    """Why the rows go as SQL; empty where they may go as events."""
    return next((why for rule in RULES if (why := rule(pair))), "")


def event_form(pair: RoutedTable, decoder: RowDecoder) -> EventForm:
    """The form of a table that nothing stands in the way of; the decoder gives raw images from now on."""
    plan = pair.plan
    keys = plan.key_columns | {part.at for function in plan.key_functions for part in function.parts or ()}
    proofs = _proofs(pair, frozenset(keys))
    alone = plan.keyed and plan.unique_indexes == 1 and not plan.identity
    there = wire_columns(pair.target.schema, pair.options.flavor)
    key = found_by(pair.target.schema, there) if plan.keyed else ()
    return EventForm(
        RowEvents(pair.table_map, plan.target, key),
        proofs,
        decoder.prove(proofs),
        image_reader(pair),
        Order(plan.keyed, None if alone else table_key(plan.target)),
        Applying(
            pair.options.foreign_key_checks,
            events_allowed(pair.options.flavor, pair.options.version),
            TableLook.of(plan.target, there, key),
            scans=not (pair.options.dialect.scans_once_for_events or plan.keyed),
            cut=packed_cut(pair.table_map, pair.wire, key) if key else None,
        ),
    )


def _proofs(pair: RoutedTable, read: frozenset[int]) -> list[ProofStep]:
    proofs = []
    for at, (wire, column) in enumerate(zip(pair.table_map.columns, pair.wire, strict=True)):
        proof = proof_of(wire, column, nullable=pair.table_map.nullable[at])
        assert proof is not None, "a rule says that there is one"
        proofs.append(proof._replace(unread=at not in read))
    return proofs


def image_reader(pair: RoutedTable) -> Callable[[bytes], Row]:
    """What reads one raw image; any thread may."""
    count = len(pair.wire)
    present = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")

    def read(raw: bytes) -> Row:
        rows = Rows("insert", 0, count, present, present, raw, 0, len(raw), 0, False)
        decoder: Any = RowDecoder(pair.table_map, pair.wire)  # which learns while it decodes
        row: Row = decoder.decode(rows)[0][1]
        return row

    return read
