"""What applies to the plans of all tables of a subtask, from its settings and what both servers are."""

from __future__ import annotations

from collections.abc import Callable

from dm.changes.collation import Weights
from dm.changes.computing import SourceSettings
from dm.changes.plan import PlanOptions, sees_none
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.local_zone import local_time
from dm.downstream.source_computing import computing_at
from dm.errors import DMError
from dm.ident import TableName
from dm.upstream.facts import ServerFacts
from dm.upstream.privilege import grants_told


def plan_options(
    subtask: SubtaskConfig,
    facts: ServerFacts,
    target: TargetConnection,
    weights: Weights | None,
    *,
    foreign_key_checks: bool,
    no_events: str,
    source: SourceSettings,
) -> PlanOptions:
    """The options; `no_events`: why the sessions take no row events."""
    settings, flavor = subtask.syncer, target.flavor
    own_mode = "sql_mode" in subtask.target.session
    # An intermediate value may be dropped, unless only the target might have refused it.
    same_rules = flavor == facts.flavor and not own_mode
    # Nobody judges the values of row events by it.
    no_events = "the task's `session` has a sql_mode, which judges values of SQL only" if own_mode else no_events
    return PlanOptions(
        flavor=flavor,
        tidb=target.tidb,
        version=target.version,
        weights=weights,
        foreign_key_checks=foreign_key_checks,
        insert_mode=settings.insert_mode,
        multiple_rows=bool(settings.multiple_rows),
        compact=bool(settings.compact) and same_rules,
        missing_row=settings.missing_row,
        narrower_columns=settings.narrower_columns,
        local_time=local_time(target, subtask.timezone),
        computing=computing_at(target, source, subtask),
        no_events=_others_alter(subtask) or _others_may(subtask) or _no_row_events(facts, target) or no_events,
        others_alter=_others_alter(subtask),
        sees_triggers=_sees_triggers(target),
        mode=target.has("sql_mode"),
    )


def _others_alter(subtask: SubtaskConfig) -> str:
    if subtask.shard_mode == "optimistic":
        return "with `shard-mode: optimistic` the target's tables change under the rows of other sources"
    return ""


def _others_may(subtask: SubtaskConfig) -> str:
    """Why the order of the target's columns may change under a plan: an event's values meet them by place.

    Without a shard mode each source executes its own DDL, and in the pessimistic one a person may waive a shard.
    """
    return "other sources of the task may alter the target's table under these rows" if subtask.neighbours else ""


def _no_row_events(facts: ServerFacts, target: TargetConnection) -> str:
    if facts.flavor != target.flavor:
        return "source and target are of different families"
    return "the target's version is below the source's" if target.version < facts.version else ""


def _sees_triggers(target: TargetConnection) -> Callable[[TableName], bool]:
    """Of which tables the target shows the account the triggers, by its grants as they are now."""
    try:
        grants = grants_told(target.query, target.flavor, target.version)
    except DMError as error:
        if error.retryable:
            raise
        return sees_none
    if target.folds_names:  # and has the names of grants in lower case
        return lambda table: grants.on_table("TRIGGER", TableName(table.schema.lower(), table.table.lower()))
    return lambda table: grants.on_table("TRIGGER", table)
