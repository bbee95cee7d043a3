"""What a merge of shards needs: tables that are alike or can be joined, and keys that do not meet.

What an optimistic merge needs at its start: a target table that takes the rows of each shard as that shard is.

From then on the syncer keeps the table so, statement by statement (`dm.syncer.shards.optimistic_policy`). It never
looks back at what was there before. The same functions of `dm.mysql.schema.merged_table` say here and there what a
table takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from dm.changes.column_map import keeps_values
from dm.config.scalar import ShardMode
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.loader.target_tables import misfit
from dm.mysql.schema.merged_table import (
    Unjoinable,
    Untaken,
    alike,
    differences,
    finds_rows,
    fits,
    joined,
    lacking,
    needs_value,
    optional,
    tells_apart,
    untaken,
)
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import column_text, create_table
from dm.mysql.schema.table import Column, TableSchema
from dm.task.precheck.context import Answers, CheckResult, Context, some

STRUCTURES: Final = "schema_of_shard_tables"
KEYS: Final = "auto_increment_ID"


@dataclass(frozen=True, slots=True)
class SourceShards:
    """What one source has that is merged; nothing where it goes on from a checkpoint, among DDL that is under way."""

    shards: Mapping[TableName, Sequence[JoiningShard]]  # by target table
    there: Mapping[TableName, TableSchema] = field(default_factory=dict)  # the target's, in an optimistic merge
    made: frozenset[TableName] = frozenset()  # target tables that a load will create
    unread: Mapping[TableName, DMError] = field(default_factory=dict)  # target tables that are there, but who knows how


def shards_of(context: Context, before: Sequence[SourceShards] = ()) -> SourceShards:
    """The shards of a source; the target's tables but for those read for the sources `before`. Raises DMError."""
    found = dict[TableName, list[JoiningShard]]()
    if not context.follows_from_checkpoint:
        for table, text in context.structures.items():
            shard = JoiningShard(
                context.config.source_id,
                parse_create_table(text, context.source_context(table)),
                context.rules.filled(table),
                context.may_meet_alters,
                context.config.syncer.narrower_columns == "accept",
                loads=context.loads,
            )
            found.setdefault(context.destination(table), []).append(shard)
    read = context.config.shard_mode == "optimistic" and STRUCTURES not in context.config.ignore_checking_items
    known = {table for source in before for table in (*source.there, *source.unread)}
    there, unread = _of_target(context, sorted(found.keys() - known)) if read else ({}, {})
    return SourceShards(found, there, frozenset(map(context.destination, context.to_be_made)), unread)


def _of_target(
    context: Context, tables: Sequence[TableName]
) -> tuple[dict[TableName, TableSchema], dict[TableName, DMError]]:
    """Those of these tables that the target has, and why others of them can't be read."""
    there, unread = dict[TableName, TableSchema](), dict[TableName, DMError]()
    schemas = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        for table in tables:
            try:
                schema = schemas.read(table) if table in context.present else None
            except DMError as error:
                unread[table] = error
                continue
            if schema is not None:
                there[table] = schema
    finally:
        schemas.close()
    return there, unread


def merged_shards(mode: ShardMode, ignored: Collection[str], sources: Sequence[SourceShards]) -> Iterator[CheckResult]:
    """Both items for each target table that more than one table goes into."""
    targets = sorted({target for source in sources for target in source.shards})
    for target in targets:
        shards = [shard for source in sources for shard in source.shards.get(target, ())]
        if len(shards) < 2:
            continue
        if mode == "pessimistic" and STRUCTURES not in ignored:
            yield from _structures(target, shards)
        if mode == "optimistic" and STRUCTURES not in ignored:
            yield from _joining(target, shards, sources)
        if KEYS not in ignored and not all(shard.extracted for shard in shards):
            yield from _keys(target, shards)


def _structures(target: TableName, shards: Sequence[JoiningShard]) -> Iterator[CheckResult]:
    answers = Answers(STRUCTURES, f"target table {target}")
    first = shards[0]
    unlike = [shard for shard in shards[1:] if not alike(shard.schema, first.schema)]
    if not unlike:
        yield answers.success(f"{len(shards)} shards are alike")
    for shard in unlike:
        told = f"{shard.name} is not like {first.name}: {'; '.join(differences(shard.schema, first.schema))}"
        if shard.from_position or first.from_position:
            yield answers.warning(
                f"{told}; an ALTER after the start may have made the difference",
                "nothing, if they are alike where the task begins; else give all shards one structure with ALTER TABLE"
                " at the sources, and begin after that",
            )
            continue
        yield answers.failure(
            told,
            "give all shards one structure with ALTER TABLE at the sources; or leave the table out by"
            " `block-allow-list` or another route; `shard-mode: optimistic` merges tables that differ in some columns",
        )


def _joining(
    target: TableName, shards: Sequence[JoiningShard], sources: Sequence[SourceShards]
) -> Iterator[CheckResult]:
    answers = Answers(STRUCTURES, f"target table {target}")
    unread = next((source.unread[target] for source in sources if target in source.unread), None)
    if unread is not None:
        why = f"{unread.message}: {unread.cause}" if unread.cause else unread.message
        yield answers.warning(
            f"whether the table takes the rows of {len(shards)} shards is not known: {why}", unread.workaround
        )
        return
    there = next((source.there[target] for source in sources if target in source.there), None)
    made = any(target in source.made for source in sources)
    yield from joined_shards(answers, target, shards, there, made=made)


def _keys(target: TableName, shards: Sequence[JoiningShard]) -> Iterator[CheckResult]:
    counted = [shard.name for shard in shards if _counts_alone(shard.schema)]
    answers = Answers(KEYS, f"target table {target}")
    if not counted:
        yield answers.success("no key of the shards is AUTO_INCREMENT alone")
        return
    yield answers.warning(
        f"{len(counted)} shards count their keys with AUTO_INCREMENT, so rows of two shards may have one key:"
        f" {some(counted)}",
        "where the numbers do not tell the shards apart already (`auto_increment_increment` and"
        " `auto_increment_offset` at the sources, or ranges): either give them bigger keys at the sources before the"
        " task begins, in each shard another range (`ALTER TABLE .. MODIFY id BIGINT AUTO_INCREMENT`; `UPDATE .. SET"
        " id = id + 1000000000000` in one shard, `+ 2000000000000` in the next, and so what refers to them; `ALTER"
        " TABLE .. AUTO_INCREMENT = ..`, the first free number of the range); or create the target's table before with"
        " a key that does: PRIMARY KEY of this column and of one that `extract-table`, `extract-schema` or"
        " `extract-source` of the route fills; or of this column and the one that the shards are split by; or the"
        " column as a plain index and no key;"
        f" `ignore-checking-items: [{KEYS}]` silences this",
    )


def _counts_alone(shard: TableSchema) -> bool:
    """Whether a unique key is an AUTO_INCREMENT column and nothing else."""
    counted = {column.name.lower() for column in shard.columns if column.auto_increment}
    return any({name.lower() for name in index.columns} <= counted for index in shard.unique_indexes if index.columns)


@dataclass(frozen=True, slots=True)
class JoiningShard:
    """A shard as it is now."""

    source_id: str
    schema: TableSchema
    extracted: frozenset[str] = frozenset()  # columns of the target that hold parts of names
    from_position: bool = False  # the task begins at a place in the binlog, perhaps before ALTERs that are done by now
    narrower_accepted: bool = False  # `narrower-columns: accept`
    loads: bool = False  # its rows come by a load first

    @property
    def name(self) -> str:
        """For people."""
        return f"{self.schema.name} of {self.source_id}"


@dataclass
class _Finding:
    """What is wrong with one shard."""

    stops: list[str]  # its rows do not come
    doubts: list[str]
    mends: list[str]


def joined_shards(
    answers: Answers, target: TableName, shards: Sequence[JoiningShard], there: TableSchema | None, *, made: bool
) -> Iterator[CheckResult]:
    """Whether the target's table takes all shards; or the one that a load will make, if it makes one."""
    if there is None:
        yield from _without_table(answers, target, shards, made=made)
        return
    found = [result for shard in shards for result in _judged(answers, shard, shards, there)]
    yield from found or [answers.success(f"the table takes the rows of {len(shards)} shards")]


def _judged(
    answers: Answers, shard: JoiningShard, shards: Sequence[JoiningShard], there: TableSchema
) -> Iterator[CheckResult]:
    finding = _finding(shard, shards, there)
    if shard.loads and not finding.stops:
        _ask_the_load(finding, shard, there)
    subject = f"the target's table and the rows of {shard.name}"
    if finding.stops and shard.from_position:
        yield answers.warning(
            f"{subject}: {'; '.join(finding.stops)}; an ALTER after the start may still mend that",
            f"nothing; if the task then stops: {'; '.join(finding.mends)}",
        )
    elif finding.stops:
        yield answers.failure(f"{subject}: {'; '.join(finding.stops)}", "; ".join(finding.mends))
    if finding.doubts:
        yield answers.warning(
            f"{subject}: {'; '.join(finding.doubts)}",
            "see whether that is meant; an ALTER of such a column or key at a shard may pause the task (36983)",
        )


def _finding(shard: JoiningShard, shards: Sequence[JoiningShard], there: TableSchema) -> _Finding:
    finding, schema = _Finding([], [], []), shard.schema
    for one in untaken(schema, there):
        if one.there is None:
            finding.stops.append(f"it lacks {column_text(one.column)}")
            finding.mends.append(f"ALTER TABLE {there.name.sql} ADD COLUMN {_of_some(one.column, shards)}")
        elif _stops(one, narrower_accepted=shard.narrower_accepted):
            finding.stops.append(f"{column_text(one.column)} goes into {column_text(one.there)}")
            finding.mends.append(_wider(there.name, one))
        else:
            finding.doubts.append(f"{column_text(one.column)} goes into {column_text(one.there)}, of another type")
    found = finds_rows(schema, there, shard.extracted)
    for column in lacking(schema, there, shard.extracted):
        if not found and any(other.schema.column(column.name) is not None for other in shards):
            finding.stops.append(
                f"no key there finds its rows, so it has to have all columns of the others, also {column_text(column)}"
            )
            finding.mends.append(f"ALTER TABLE {schema.name.sql} ADD COLUMN {column_text(column)} (at the source)")
        elif needs_value(column):
            finding.stops.append(f"the shard has no value for {column_text(column)}")
            finding.mends.append(_with_default(there.name, column))
    for key in there.unique_indexes:
        if not tells_apart(key, schema, shard.extracted):
            finding.doubts.append(f"rows that the shard tells apart may be one for the key {key.name} there")
    return finding


def _ask_the_load(finding: _Finding, shard: JoiningShard, there: TableSchema) -> None:
    """A load is stricter than the stream: it writes values of one kind only."""
    why = misfit(shard.schema, there, shard.extracted, wider=True)
    if why is not None:
        error = DMError("load-table-differs", table=there.name, source_table=shard.schema.name, why=why)
        finding.stops.append(f"the load refuses the table: {why}")
        finding.mends.append(error.workaround)


def _stops(one: Untaken, *, narrower_accepted: bool) -> bool:
    """Whether some row of the shard is refused or changed; else the types are only not of one family."""
    column, there = one.column, one.there
    assert there is not None
    if column.nullable and not there.nullable:
        return True
    return not narrower_accepted and (fits(there, column) or not keeps_values(column, there))


def _of_some(column: Column, shards: Sequence[JoiningShard]) -> str:
    """A column to be added, which rows of other shards may lack."""
    if needs_value(column) and any(shard.schema.column(column.name) is None for shard in shards):
        column = optional(column)
    return column_text(column)


def _wider(target: TableName, one: Untaken) -> str:
    column, there = one.column, one.there
    assert there is not None
    if not (fits(there, column) or fits(column, there)):
        return f"give {Ident(there.name).sql} of {target} a type that holds both (at the target)"
    widest = column if fits(there, column) else there
    nullable = column.nullable or there.nullable
    wider = replace(widest, nullable=nullable, default=there.default)
    return f"ALTER TABLE {target.sql} MODIFY COLUMN {column_text(wider)}"


def _with_default(target: TableName, column: Column) -> str:
    after = optional(column)
    if after.default is None:
        return f"ALTER TABLE {target.sql} MODIFY COLUMN {column_text(after)}"
    return f"ALTER TABLE {target.sql} ALTER COLUMN {Ident(column.name).sql} SET DEFAULT {after.default}"


# -- A table that is not there yet


def _without_table(
    answers: Answers, target: TableName, shards: Sequence[JoiningShard], *, made: bool
) -> Iterator[CheckResult]:
    """A load creates it like the shard that comes first, whichever that is; else a person creates it."""
    later = any(shard.from_position for shard in shards)  # a load makes what was dumped, not what is there now
    say = answers.failure if made and not later else answers.warning
    table = joined(target, [shard.schema for shard in shards])
    if isinstance(table, Unjoinable):
        texts = [
            f"{shard.name} has {column_text(column)}"
            for shard in shards
            if shard.schema in (table.one, table.other) and (column := shard.schema.column(table.column)) is not None
        ]
        yield say(
            f"shards can't be joined, neither type holds the values of the other: {'; '.join(texts)}",
            "create the target's table before, with a type that holds both; or ALTER one of the shards at its source",
        )
        return
    unequal = [text for first in shards for text in _left_out(first, shards)]
    if made and unequal:
        text = create_table(table).replace("\n  ", " ").replace("\n", "")
        yield say(
            f"a load creates the table like the shard that comes first, and shards differ: {some(unequal, 3)}",
            f"{text} (at the target, before)",
        )
    else:
        yield answers.success(f"{len(shards)} shards can be joined")


def _left_out(first: JoiningShard, shards: Sequence[JoiningShard]) -> Iterator[str]:
    """What a table like the first shard would not take of the others."""
    for shard in shards:
        finding = _finding(shard, shards, first.schema)
        yield from (f"{first.name} for {shard.name}: {text}" for text in (*finding.stops, *finding.doubts))
