"""Checks of a source's second address: whether a server stands there that can take over from the first one.

What both say of their past is compared once. A standby that lacks something only lags, as replicas do; one that shares
nothing with the first address, or has written by itself, is of no use or worse, since it would be followed.
"""

from __future__ import annotations

from collections.abc import Iterator

from dm.gtid import GtidSet
from dm.mysql.dialect import dialect
from dm.mysql.dialect.pair import same_server
from dm.sourcelog.upstream.facts import executed_gtids
from dm.task.precheck.context import Answers, CheckResult, Context, Server

_STRICT = "SET GLOBAL gtid_strict_mode = ON; and in the server's configuration file"


def group(first: Server, context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the context's server, the standby, replicates with the first one."""
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
