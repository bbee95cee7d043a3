"""What an optimistic merge needs at its start: a target table that takes the rows of each shard as that shard is.

From then on the syncer keeps the table so, statement by statement (`dm.syncer.ddl.shard_policy`). It never looks back
at what was there before. The same functions of `dm.schema.joined_table` say here and there what a table takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from dm.changes.narrowing import keeps_values
from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.loader.target_tables import misfit
from dm.schema.joined_table import Unjoinable, Untaken, finds_rows, joined, lacking, optional, tells_apart, untaken
from dm.schema.shard_column import fits, needs_value
from dm.schema.show import column_text, create_table
from dm.schema.table import Column, TableSchema
from dm.task.precheck.context import Answers, some
from dm.task.precheck.result import CheckResult


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
            f"{subject}: {'; '.join(finding.stops)}; an ALTER behind the start may still mend that",
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
    behind = any(shard.from_position for shard in shards)  # a load makes what was dumped, not what is there now
    say = answers.failure if made and not behind else answers.warning
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
