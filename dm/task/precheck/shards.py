"""What a merge of shards needs: tables that are alike or can be joined, and keys that do not meet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dm.config.choices import ShardMode
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.schema.alike import alike, differences
from dm.schema.parse import parse_create_table
from dm.schema.table import TableSchema
from dm.task.precheck.context import Answers, Context, some
from dm.task.precheck.joined_shards import JoiningShard, joined_shards
from dm.task.precheck.result import CheckResult

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
                context.begins_behind,
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
                f"{told}; an ALTER behind the start may have made the difference",
                "nothing, if they are alike where the task begins; else give all shards one structure with ALTER TABLE"
                " at the sources, and begin behind that",
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
