"""`dmctl binlog` and `dmctl binlog-schema` for a subtask that does not run: what is stored is changed.

Rows are read by the structure of the source's table at the checkpoint, so it must be the one that the source had there;
a structure that does not fit the rows after the checkpoint pauses the task again. A paused task holds nothing in
memory: what is changed here is stored.

Operators at the target are changed directly. Nothing else changes them meanwhile: the control lane's lock is held, and
a new run takes that lock away first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from typing import Literal

from dm.config import SourceConfig, SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.merged_table import unfilled
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import create_table
from dm.mysql.schema.table import TableSchema
from dm.mysql.sql.context import SourceContext
from dm.progress.checkpoint import (
    Checkpoint,
    TablePoint,
    forget_table,
    no_other_run,
    read_checkpoint,
    store_table,
    write_table,
)
from dm.progress.joining.branches import place_of
from dm.progress.joining.table_joining import find_all
from dm.progress.operators import change_operators, read_operators
from dm.progress.shards.group import Shard, create_shard_tables
from dm.progress.shards.held_shards import earliest, read_held
from dm.progress.shards.optimistic_structures import ShardStructures
from dm.progress.tables import SubtaskKey, create_tables
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import has_view, read_facts, read_structure
from dm.syncer.operators import Change, EventPlace, Request, checked, decide, report
from dm.task.progress import key_of, reading_key
from dm.unit import JSON

StructureOrigin = Literal["file", "source", "target"]
_NO_SUCH_TABLE = (1146, 1049)


@dataclass(frozen=True, slots=True)
class StructureRequest:
    """What a person wants of one table's structure."""

    verb: Literal["list", "update", "delete"]
    table: TableName
    origin: StructureOrigin = "file"
    text: str = ""  # a CREATE TABLE statement, where it comes from a file
    sync: bool = True  # optimistic shard mode: other sources' statements see it at once, and not when the task goes on


def change_structure(config: SubtaskConfig, request: StructureRequest) -> str:
    """Carry out a request; gives the structure as CREATE TABLE, where one is left. Raises DMError."""
    if request.verb == "list":
        with closing(TargetConnection(config.target)) as connection:
            create_tables(connection, key_of(config))
            key = _key_of(connection, config, request.table)
            return create_table(_tracked(config, read_checkpoint(connection, key), request.table))
    new = None if request.verb == "delete" else _wanted(config, request)
    with _progress(config, request.table) as (connection, key, checkpoint):
        known = checkpoint.tables.get(request.table)
        if new is not None:
            if request.origin == "target":
                _demand_order(new, _present(config, request.table) or (known.schema if known else None))
            connection.begin()
            write_table(connection, key, request.table, TablePoint(new, known.point if known else None))
            if request.sync and config.shard_mode == "optimistic":
                shard = Shard(request.table, TableRules(config).route(request.table))
                ShardStructures(key_of(config)).told(connection, shard, new)
            connection.commit()
            return create_table(new)
        _tracked(config, checkpoint, request.table)
        assert known is not None
        if known.point is None and key == key_of(config):
            forget_table(connection, key, request.table)
        else:  # where its rows begin to count is no part of its structure, nor whose they are
            store_table(connection, key, request.table, TablePoint(None, known.point))
        return ""


def _tracked(config: SubtaskConfig, checkpoint: Checkpoint | None, table: TableName) -> TableSchema:
    known = None if checkpoint is None else checkpoint.tables.get(table)
    if known is None or known.schema is None:
        raise DMError("tracked-structure-missing", table=table, source=config.source_id, task=config.task)
    return known.schema


def _key_of(connection: TargetConnection, config: SubtaskConfig, table: TableName) -> SubtaskKey:
    """Whose table it is: the second pass's of a merge of shards, or the source's stream's."""
    key = reading_key(connection, config)
    checkpoint = read_checkpoint(connection, key)
    return key if checkpoint is not None and table in checkpoint.tables else key_of(config)


@contextmanager
def _progress(config: SubtaskConfig, table: TableName) -> Iterator[tuple[TargetConnection, SubtaskKey, Checkpoint]]:
    """The stored checkpoint that has the table, and nobody else who changes it."""
    with closing(TargetConnection(config.target)) as connection:
        create_tables(connection, key_of(config))
        key = _key_of(connection, config, table)
        with no_other_run(connection, key_of(config)), no_other_run(connection, key):
            checkpoint = read_checkpoint(connection, key)
            if checkpoint is None:
                raise DMError("tracked-structure-missing", table=table, source=config.source_id, task=config.task)
            yield connection, key, checkpoint


def _wanted(config: SubtaskConfig, request: StructureRequest) -> TableSchema:
    """The new structure, under the name that the source has."""
    if request.origin == "target":
        return replace(_at_target(config, request.table), name=request.table)
    return _parsed(
        config, request.table, request.text if request.origin == "file" else _at_source(config, request.table)
    )


def _parsed(config: SubtaskConfig, table: TableName, text: str) -> TableSchema:
    context = replace(plain_context(config.source), schema=table.schema)
    try:
        return replace(parse_create_table(text, context), name=table)
    except DMError as error:
        why = error.details.get("why", error.message)
        raise DMError("structure-statement-invalid", why=why, statement=text) from error


def _at_source(config: SubtaskConfig, table: TableName) -> str:
    with closing(connect(config.source.endpoint)) as connection:
        if has_view(connection, table):  # in the table's place by now
            raise DMError("structure-not-there", role="source", table=table)
        try:
            return read_structure(connection, table)
        except DMError as error:
            if error.server_errno not in _NO_SUCH_TABLE:
                raise
            raise DMError("structure-not-there", role="source", table=table) from error


def _present(config: SubtaskConfig, table: TableName) -> TableSchema | None:
    """The source's present structure; None where it has no such table any more."""
    try:
        return _parsed(config, table, _at_source(config, table))
    except DMError as error:
        if error.name != "structure-not-there":
            raise
        return None


def _demand_order(new: TableSchema, source: TableSchema | None) -> None:
    """Raise DMError where rows, whose columns have numbers, would be read by the order of another server's table."""
    if source is None:
        return
    ours, theirs = ([column.name.lower() for column in schema.columns] for schema in (source, new))
    ours, theirs = [name for name in ours if name in theirs], [name for name in theirs if name in ours]
    if ours != theirs:
        raise DMError("structure-order-differs", table=new.name, ours=", ".join(ours), theirs=", ".join(theirs))


def _at_target(config: SubtaskConfig, table: TableName) -> TableSchema:
    """The target's structure without the columns that hold parts of names: the source has none of them."""
    rules = TableRules(config)
    routed = rules.route(table)
    with closing(TargetSchemas(lambda: TargetConnection(config.target))) as targets:
        schema = targets.read(routed)
    if schema is None:
        raise DMError("structure-not-there", role="target", table=routed)
    return unfilled(schema, rules.filled(table))


def operate_on_event(config: SubtaskConfig, request: Request, failing: EventPlace | None) -> JSON:
    """Carry out a request; gives the operators of a list. Raises DMError."""
    if request.verb in ("replace", "inject"):
        statements = checked(request.statements, plain_context(config.source), config.task)
        request = replace(request, statements=statements)
    with closing(TargetConnection(config.target)) as connection:
        create_tables(connection, key_of(config))
        if config.shard_mode:
            create_shard_tables(connection, key_of(config))
        if request.verb == "list":
            key = reading_key(connection, config)
            return report(_decided(config, connection, key, request, failing), request.task)
        key = reading_key(connection, config)
        with no_other_run(connection, key_of(config)), no_other_run(connection, key):
            change = _decided(config, connection, key, request, failing)
            keys = {key, key_of(config)}
            change_operators(connection, keys, put=change.put, remove=change.remove)
        return report(change, request.task)


def _decided(
    config: SubtaskConfig, connection: TargetConnection, key: SubtaskKey, request: Request, failing: EventPlace | None
) -> Change:
    checkpoint = read_checkpoint(connection, key)
    if checkpoint is None:
        raise DMError("no-failing-event", source=config.source_id, task=config.task)
    own = key_of(config)
    branches = [one for one in find_all(connection, own) if one.kind == "branch"]
    places = [place for one in branches if (place := place_of(connection, own, one)) is not None]
    if config.shard_mode:  # held shards are read again
        places += [held.place for held in read_held(connection, own)]
    passed = earliest([checkpoint.position, *places])
    return decide(request, read_operators(connection, key), passed, failing)


def plain_context(source: SourceConfig) -> SourceContext:
    """How statements are to be read that a person writes under the source's names."""
    with closing(connect(source.endpoint)) as connection:
        facts = read_facts(connection)
    return SourceContext(facts.flavor, facts.version, "", lower_case_names=facts.lower_case_table_names == 1)
