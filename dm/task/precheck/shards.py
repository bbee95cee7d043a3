"""What a merge of shards needs: tables that are alike or can be joined, and keys that do not meet."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dm.config.choices import ShardMode
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
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

    source_id: str
    shards: Mapping[TableName, Sequence[TableSchema]]  # by target table
    extracted: Mapping[TableName, frozenset[str]]  # columns of target tables that say where rows are from
    there: Mapping[TableName, TableSchema] = field(default_factory=dict)  # the target's, in an optimistic merge
    made: frozenset[TableName] = frozenset()  # target tables that a load will create
    from_position: bool = False
    narrower_accepted: bool = False


def shards_of(context: Context) -> SourceShards:
    """The shards of a source; raises DMError."""
    found = dict[TableName, list[TableSchema]]()
    extracted = dict[TableName, frozenset[str]]()
    if not context.follows_from_checkpoint:
        for table, text in context.structures.items():
            target = context.destination(table)
            found.setdefault(target, []).append(parse_create_table(text, context.source_context(table)))
            columns = frozenset(each.column.lower() for each in context.rules.extracted(table))
            if columns:
                extracted[target] = columns
    optimistic = context.config.shard_mode == "optimistic"
    return SourceShards(
        context.config.source_id,
        found,
        extracted,
        _of_target(context, sorted(found)) if optimistic else {},
        frozenset(map(context.destination, context.to_be_made)),
        not context.dumps and context.config.meta is not None,
        context.config.syncer.narrower_columns == "accept",
    )


def _of_target(context: Context, tables: Sequence[TableName]) -> dict[TableName, TableSchema]:
    """Those of these tables that the target has."""
    schemas = TargetSchemas(lambda: TargetConnection(context.config.target))
    try:
        read = {table: schemas.read(table) for table in tables if table in context.present}
    finally:
        schemas.close()
    return {table: schema for table, schema in read.items() if schema is not None}


def merged_shards(mode: ShardMode, ignored: Collection[str], sources: Sequence[SourceShards]) -> Iterator[CheckResult]:
    """Both items for each target table that more than one table goes into."""
    targets = sorted({target for source in sources for target in source.shards})
    for target in targets:
        shards = [(source.source_id, shard) for source in sources for shard in source.shards.get(target, ())]
        if len(shards) < 2:
            continue
        if mode == "pessimistic" and STRUCTURES not in ignored:
            yield from _structures(target, shards)
        if mode == "optimistic" and STRUCTURES not in ignored:
            yield from _joining(target, sources)
        if KEYS not in ignored and not any(target in source.extracted for source in sources):
            yield from _keys(target, shards)


def _structures(target: TableName, shards: Sequence[tuple[str, TableSchema]]) -> Iterator[CheckResult]:
    answers = Answers(STRUCTURES, f"target table {target}")
    source, first = shards[0]
    unlike = [(other, shard) for other, shard in shards[1:] if not alike(shard, first)]
    if not unlike:
        yield answers.success(f"{len(shards)} shards are alike")
    for other, shard in unlike:
        yield answers.failure(
            f"{shard.name} of {other} is not like {first.name} of {source}: {'; '.join(differences(shard, first))}",
            "give all shards one structure with ALTER TABLE at the sources; or leave the table out by"
            " `block-allow-list` or another route; `shard-mode: optimistic` merges tables that differ in some columns",
        )


def _joining(target: TableName, sources: Sequence[SourceShards]) -> Iterator[CheckResult]:
    shards = [
        JoiningShard(
            source.source_id,
            shard,
            source.extracted.get(target, frozenset()),
            source.from_position,
            source.narrower_accepted,
        )
        for source in sources
        for shard in source.shards.get(target, ())
    ]
    there = next((source.there[target] for source in sources if target in source.there), None)
    made = any(target in source.made for source in sources)
    yield from joined_shards(Answers(STRUCTURES, f"target table {target}"), target, shards, there, made=made)


def _keys(target: TableName, shards: Sequence[tuple[str, TableSchema]]) -> Iterator[CheckResult]:
    counted = [f"{shard.name} of {source}" for source, shard in shards if _counts_alone(shard)]
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
