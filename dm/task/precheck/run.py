"""Which checks a task needs, in DM's order, and how they are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final, Literal

from dm.config import Endpoint, SubtaskConfig, TaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.dialect import dialect
from dm.mysql.dialect.pair import same_server
from dm.mysql.sql.context import version_number
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.facts import ServerFacts, executed_gtids
from dm.task.precheck import access, binlog, tables, way_back
from dm.task.precheck.access import ITEM as CLUSTER
from dm.task.precheck.access import cluster_authentication, rows_there_already
from dm.task.precheck.context import Answers, Check, CheckResult, Context, Server, open_server, some
from dm.task.precheck.not_migrated import ITEM as LISTS
from dm.task.precheck.not_migrated import SourceNames, dump_and_lists, entries_without_tables, not_migrated
from dm.task.precheck.opposite import named_each_other
from dm.task.precheck.shards import SourceShards, merged_shards, shards_of
from dm.task.subtask import UNITS_OF_MODE

_STRICT: Final = "SET GLOBAL gtid_strict_mode = ON; and in the server's configuration file"


def online_ddl(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Ghost tables of migrated tables, where the task does not know their statements yet."""
    rules = context.rules
    ghosts = [table for table in context.all_tables if rules.online.kind(table) == "ghost" and rules.followed(table)]
    if not ghosts or context.follows_from_checkpoint:
        yield answers.success("no online DDL is under way" if not ghosts else "")
        return
    message = f"an online DDL is under way, or has left its table behind: {some(ghosts)}"
    way_out = "wait until it is done; DROP TABLE what was left behind; or leave `online_ddl` out of the check"
    yield answers.failure(message, way_out) if context.dumps else answers.warning(message, way_out)


def of_source(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the source is of a version this program knows."""
    yield source_finding(context.source.facts, answers)


def source_finding(facts: ServerFacts, answers: Answers) -> CheckResult:
    """The same, of the source's facts alone."""
    said = f"{facts.base_flavor} {facts.version_text}"
    if never_tried(facts):
        return answers.warning(f"{said} was never tried", "compare the data after the first load")
    return answers.success(said)


def of_target(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where the target is too old; nothing else."""
    yield from target_findings(context.target.facts, answers)


def target_findings(facts: ServerFacts, answers: Answers) -> Iterator[CheckResult]:
    """The same, of the target's facts alone."""
    if too_old_a_target(facts):
        yield answers.failure(
            f"{facts.base_flavor} {facts.version_text} has no type JSON, which the progress tables need",
            f"take a target of {facts.base_flavor} {facts.dialect.json_since} or later",
        )


def never_tried(facts: ServerFacts) -> bool:
    """Whether no server of that age was ever a source."""
    return facts.version < facts.dialect.oldest_source or facts.dialect.untried_sources


def too_old_a_target(facts: ServerFacts) -> bool:
    """Whether the progress tables can't be created there."""
    return facts.version < version_number(facts.dialect.json_since)


def replicates_with(first: Server, context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the context's server, the standby, replicates with the first one.

    What both say of their past is compared once. A standby that lacks something only lags, as replicas do. One that
    shares nothing with the first address, or has written by itself, is of no use or worse, since it would be followed.
    """
    ours, theirs = first.facts, context.source.facts
    if not same_server(ours.flavor, theirs.flavor):
        yield answers.failure(
            f"the standby is {theirs.base_flavor}, the source {ours.base_flavor}", "name a server of the same group"
        )
        return
    if ours.server_uuid == theirs.server_uuid:
        yield answers.failure("the standby is the source itself", "name another server of the group")
        return
    loose = [server for server in (first, context.source) if not server.facts.gtid_ordered]
    if loose:
        where = " and ".join(f"{server.role} ({server.endpoint.address})" for server in loose)
        yield answers.failure(f"gtid_strict_mode is OFF at {where}: a switch would not be exact", _STRICT)
        return
    # The standby first: what it has, the other one had before.
    standby_has = executed_gtids(context.source.connection, theirs)
    source_has = executed_gtids(first.connection, ours)
    own, lacking = standby_has - source_has, source_has - standby_has
    if own:
        yield answers.failure(
            f"the standby has transactions that the source lacks: {own}; the source has: {source_has or 'nothing'}",
            "name a server that only replicates, or rebuild it from the source",
        )
    elif lacking and not _in_common(source_has, standby_has):
        yield answers.failure(
            f"the standby has nothing of the source: it has {standby_has or 'nothing'}, the source {source_has}",
            "name a server that replicates from the source with its binlog on (log_replica_updates)",
        )
    elif lacking:
        yield answers.warning(
            f"the standby lacks {lacking}: it can't take over before it has them",
            "see whether its replication runs (SHOW REPLICA STATUS)",
        )
    else:
        yield answers.success("the standby has everything that the source has")


def _in_common(source: GtidSet, standby: GtidSet) -> bool:
    """Whether the standby has anything of what the source has."""
    if dialect(source.flavor).gtids_have_domains:
        domains = [{part.split("-")[0] for part in str(found).split(",") if part} for found in (source, standby)]
        return bool(domains[0] & domains[1])
    return bool(standby) and (source - standby) != source


Need = Literal["always", "dump", "sync", "dump or sync"]


@dataclass(frozen=True, slots=True)
class Item:
    """A check with DM's name, where it has one there."""

    name: str
    need: Need
    check: Check
    where: Literal["source", "target", "both"] = "source"


ITEMS: tuple[Item, ...] = (
    Item("version", "always", of_source),
    Item("version", "always", of_target, "target"),
    Item("server_id", "sync", binlog.server_id),
    Item("binlog_enable", "dump or sync", binlog.enabled),
    Item("binlog_format", "sync", binlog.row_format),
    Item("binlog_row_image", "sync", binlog.row_image),
    Item("binlog_row_metadata", "sync", binlog.row_metadata),
    Item("binlog_db", "sync", binlog.filtered_schemas),
    Item("gtid_mode", "sync", binlog.gtid_mode),
    Item("replication_privilege", "sync", access.replication),
    Item("dump_privilege", "dump", access.dump),
    Item("target_privilege", "always", access.target, "target"),
    Item("server_identity", "always", access.identity, "both"),
    Item("target_session", "always", access.session_of_target, "target"),
    Item("target_session", "always", access.sessions_of_all_servers, "target"),
    Item("row_events", "sync", access.privilege, "target"),
    Item("validators", "sync", access.temporary_tables, "target"),
    Item("table_schema", "always", tables.structures, "both"),
    Item("downstream_table_empty", "always", rows_there_already, "target"),
    Item("dump_selection", "dump", dump_and_lists),
    Item("online_ddl", "sync", online_ddl),
    Item("meta_position", "sync", binlog.start_point),
    Item("checkpoint", "sync", way_back.readable),
    Item("opposite", "sync", named_each_other),
    Item("way_back", "sync", way_back.nothing_returned),
    Item("conn_number", "always", access.connections, "both"),
    Item("not_migrated", "always", not_migrated),
)


_NAMES_AT_A_STANDBY = frozenset(
    {
        "version",
        "server_id",
        "binlog_enable",
        "binlog_format",
        "binlog_row_image",
        "binlog_row_metadata",
        "gtid_mode",
        "replication_privilege",
    }
)
OF_A_STANDBY: Sequence[Item] = [item for item in ITEMS if item.name in _NAMES_AT_A_STANDBY and item.where == "source"]
"""What is asked of a source's second address as well."""


def prechecks(
    task: TaskConfig,
    sources: Sequence[str],
    *,
    anew: bool = False,
    at_time: bool = False,
    work: Path | None = None,
    relays: Mapping[str, Path] | None = None,
) -> list[CheckResult]:
    """Everything found about a task on these sources, to go on or to begin anew; failures are results, not errors.

    `work` is the task's directory, in which dumps may have begun. `relays` are the directories of those relays that the
    task will read.
    """
    if "all" in task.ignore_checking_items:
        return []
    seen, shards, results = list[SourceNames](), list[SourceShards](), list[CheckResult]()
    for source in sources:
        relay = (relays or {}).get(source)
        context = partial(Context, task.subtask(source), anew=anew, at_time=at_time, work=work, relay=relay)
        results += _said_once(_subtask(task.subtask(source), (seen, shards), context))
    results += merged_shards(task.merges, task.ignore_checking_items, shards)
    if seen and LISTS not in task.ignore_checking_items:
        results += entries_without_tables(task, seen)
    if CLUSTER not in task.ignore_checking_items:
        results += cluster_authentication(task.spark)
    return results


def _said_once(results: Iterable[CheckResult]) -> Iterator[CheckResult]:
    """One thing may keep several checks of a source from being made; the first of them says so."""
    said: set[str] = set()
    for result in results:
        if result.state != "failure" or result.message not in said:
            yield result
        if result.state == "failure":
            said.add(result.message)


def _subtask(
    config: SubtaskConfig, across: tuple[list[SourceNames], list[SourceShards]], given: Callable[..., Context]
) -> Iterator[CheckResult]:
    with ExitStack() as stack:
        source = _reach(stack, config.source.endpoint, f"source {config.source_id}")
        standby = config.source.standby
        if isinstance(source, CheckResult) and standby is not None and "Dump" not in UNITS_OF_MODE[config.mode]:
            # That is what a standby is for; only a dump needs the first address.
            yield replace(source, state="warning")
            source = _reach(stack, standby, f"standby of source {config.source_id}")
            standby = None
        target = _reach_target(stack, config)
        unreachable = [one for one in (source, target) if isinstance(one, CheckResult)]
        if isinstance(source, CheckResult) or isinstance(target, CheckResult):
            yield from unreachable
            return
        context = given(source=source, target=target)
        for item in ITEMS:
            if _applies(item, context):
                yield from _run(item, context)
        if context.dumps or context.syncs:
            seen, shards = across
            try:
                seen.append(_names(context))
                shards += [shards_of(context, shards)] if config.shard_mode else []
            except DMError as error:
                yield _failed(Answers(LISTS, source.role), error)
        if context.syncs and standby is not None:
            yield from _standby(stack, standby, context)


@reads_answers
def _names(context: Context) -> SourceNames:
    rows = context.source.query("SELECT schema_name FROM information_schema.schemata")
    return SourceNames(
        context.config.source_id,
        context.config.case_sensitive,
        tuple(str(row[0]) for row in rows),
        context.all_tables,
        context.follows_from_checkpoint,
    )


def _standby(stack: ExitStack, endpoint: Endpoint, context: Context) -> Iterator[CheckResult]:
    """What a server needs to be followed, asked of the source's second address."""
    server = _reach(stack, endpoint, f"standby of source {context.config.source_id}")
    if isinstance(server, CheckResult):
        yield server
        return
    there = replace(context, source=server)
    for item in [*OF_A_STANDBY, Item("standby", "sync", partial(replicates_with, context.source))]:
        if _applies(item, there):
            yield from _run(item, there)


def _reach(stack: ExitStack, endpoint: Endpoint, role: str) -> Server | CheckResult:
    answers = Answers("connection", f"{role} ({endpoint.address})")
    try:
        return stack.enter_context(open_server(endpoint, role))
    except DMError as error:
        return _failed(answers, error)


def _reach_target(stack: ExitStack, config: SubtaskConfig) -> Server | CheckResult:
    """Log in as the units do, session variables and all; the checks themselves need a plain session."""
    try:
        TargetConnection(config.target, foreign_key_checks=config.foreign_key_checks).close()
    except DMError as error:
        return _failed(Answers("connection", f"target ({config.target.address})"), error)
    return _reach(stack, config.target.model_copy(update={"session": {}}), "target")


def _applies(item: Item, context: Context) -> bool:
    if item.name in context.config.ignore_checking_items:
        return False
    needed = {
        "always": True,
        "dump": context.dumps,
        "sync": context.syncs,
        "dump or sync": context.dumps or context.syncs,
    }
    return needed[item.need]


def _run(item: Item, context: Context) -> Iterator[CheckResult]:
    names = {
        "source": f"{context.source.role} ({context.source.endpoint.address})",
        "target": f"{context.target.role} ({context.target.endpoint.address})",
        "both": f"{context.source.role} to {context.target.role}",
    }
    answers = Answers(item.name, names[item.where])
    try:
        yield from item.check(context, answers)
    except DMError as error:  # the check itself could not be made, for example by a missing privilege
        yield _failed(answers, error)


def _failed(answers: Answers, error: DMError) -> CheckResult:
    message = f"{error.message}: {error.cause}" if error.cause else error.message
    return answers.failure(message, error.workaround)
