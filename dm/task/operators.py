"""`dmctl binlog` for a subtask that does not run: its progress at the target is changed directly.

Nothing else changes it meanwhile: the control lane's lock is held, and a new run takes that lock away first.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from dm.config import SourceConfig, SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.mysql.sql.context import SourceContext
from dm.progress.checkpoint import no_other_run, read_checkpoint
from dm.progress.operators import change_operators, read_operators
from dm.progress.shards.holds import earliest, read_held
from dm.progress.shards.tables import create_shard_tables
from dm.progress.tables import SubtaskKey, create_tables
from dm.sourcelog.upstream.connection import connect
from dm.sourcelog.upstream.facts import read_facts
from dm.syncer.operators import Change, EventPlace, Request, checked, decide, report
from dm.task.progress import key_of, reading_key
from dm.unit import JSON


def operate(config: SubtaskConfig, request: Request, failing: EventPlace | None) -> JSON:
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
    passed = checkpoint.position
    if config.shard_mode:  # held shards are read again
        passed = earliest([passed, *(held.place for held in read_held(connection, key_of(config)))])
    return decide(request, read_operators(connection, key), passed, failing)


def plain_context(source: SourceConfig) -> SourceContext:
    """How statements are to be read that a person writes under the source's names."""
    with closing(connect(source.endpoint)) as connection:
        facts = read_facts(connection)
    return SourceContext(facts.flavor, facts.version, "", lower_case_names=facts.lower_case_table_names == 1)
