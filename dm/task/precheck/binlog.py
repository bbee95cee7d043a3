"""Checks of the source's binlog and of the place to start in it."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from dm.errors import DMError
from dm.gtid import GtidSet
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import identity_for
from dm.sourcelog.upstream.dump_stream import DumpStart, DumpStream
from dm.sourcelog.upstream.facts import binlog_files, purged_gtids
from dm.task.precheck.context import Answers, CheckResult, Context, OfSource

_START_SECONDS = 15.0  # as long as DM waits for the first event


def server_id(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the source has an id of its own, which replication needs."""
    if context.source.facts.server_id > 0:
        yield answers.success(str(context.source.facts.server_id))
    else:
        yield answers.warning("server_id is 0", "SET GLOBAL server_id = 1; and in the server's configuration file")


def enabled(context: OfSource, answers: Answers) -> Iterator[CheckResult]:
    """Whether there is a binlog."""
    if context.source.facts.log_bin:
        yield answers.success("log_bin is ON")
    else:
        yield answers.failure(
            "log_bin is OFF: the server writes no binlog",
            "put `log-bin = mysql-bin` and a `server-id` into the server's configuration file and restart it",
        )


def row_format(context: OfSource, answers: Answers) -> Iterator[CheckResult]:
    """Whether the binlog holds rows, not statements."""
    found = context.source.facts.binlog_format
    if found.upper() == "ROW":
        yield answers.success("binlog_format is ROW")
    else:
        yield answers.failure(
            f"binlog_format is {found}",
            "SET GLOBAL binlog_format = 'ROW'; then have the applications connect anew, since sessions keep theirs",
        )


def row_image(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the binlog holds whole rows."""
    found = context.source.facts.binlog_row_image
    if found.upper() in ("FULL", "FULL_NODUP"):
        yield answers.success(f"binlog_row_image is {found}")
    else:
        yield answers.failure(
            f"binlog_row_image is {found}: changes lack columns",
            "SET GLOBAL binlog_row_image = 'FULL'; then have the applications connect anew, since sessions keep theirs",
        )


def row_metadata(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether row events say which columns they are about."""
    found = context.source.facts.binlog_row_metadata
    if found.upper() == "FULL":
        yield answers.success("binlog_row_metadata is FULL")
    elif not found:
        yield answers.success("the server has no binlog_row_metadata; structures come from the tracked DDL")
    else:
        yield answers.warning(
            f"binlog_row_metadata is {found}: row events name no columns, so their structure is tracked from DDL alone",
            "SET GLOBAL binlog_row_metadata = 'FULL'; then a wrong structure is noticed by name, too",
        )


@reads_answers
def filtered_schemas(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the server leaves schemas out of its binlog that are to be migrated."""
    facts = context.source.facts
    if not facts.log_bin:
        return
    modern = facts.dialect.says_binary_log_status
    row = context.source.query("SHOW BINARY LOG STATUS" if modern else "SHOW MASTER STATUS")[0]
    only = {name.strip().lower() for name in str(row[2] or "").split(",") if name.strip()}
    never = {name.strip().lower() for name in str(row[3] or "").split(",") if name.strip()}
    missing = [name for name in context.schemas if (only and name.lower() not in only) or name.lower() in never]
    if missing:
        yield answers.failure(
            f"the server's binlog leaves out {', '.join(missing)}",
            "remove binlog-do-db and binlog-ignore-db from the server's configuration file and restart it",
        )
    else:
        yield answers.success()


def gtid_mode(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the server has the GTIDs that the source file asks for."""
    if not context.config.source.enable_gtid or context.source.facts.gtid_mode:
        yield answers.success()
        return
    error = DMError("gtid-mode-off", source=context.config.source_id, mode=context.source.variables["gtid_mode"])
    yield answers.failure(error.message, error.workaround)


def start_point(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the source sends its binlog from `meta` on: the only proof is to have it sent."""
    meta = context.config.meta
    if meta is None or context.config.mode not in ("incremental", "load&sync") or not context.source.facts.log_bin:
        yield answers.success()
        return
    start: DumpStart
    if meta.binlog_gtid:
        start = GtidSet.parse(meta.binlog_gtid, context.source.facts.flavor)
        lost = purged_gtids(context.source.connection, context.source.facts) - start
        if lost:
            yield answers.failure(
                f"the source has purged {lost}, which is not in `binlog-gtid`",
                "begin with a new full load (`task-mode: all`), or at a later GTID set",
            )
            return
    else:
        files = dict(binlog_files(context.source.connection))
        if meta.binlog_name not in files:
            yield answers.failure(
                f"the source has no binlog file {meta.binlog_name}; it has {min(files)} to {max(files)}",
                "give a file and position that SHOW BINARY LOGS lists, or begin with a new full load",
            )
            return
        if meta.binlog_pos > files[meta.binlog_name]:
            yield answers.failure(
                f"{meta.binlog_name} ends at {files[meta.binlog_name]}, before `binlog-pos: {meta.binlog_pos}`",
                "give the end of a transaction, as SHOW BINLOG EVENTS lists them",
            )
            return
        start = (meta.binlog_name, meta.binlog_pos)
    yield _streamed(context, answers, start)


def _streamed(context: Context, answers: Answers, start: DumpStart) -> CheckResult:
    identity = identity_for("check", context.config.source_id)
    stream = DumpStream(context.source.endpoint, identity, start)
    timer = threading.Timer(_START_SECONDS, stream.close)
    events = 0
    try:
        with stream:
            timer.start()
            for batch in stream.batches():
                events += len(batch)
                # The rotate and the format description are made up by the server; the third is from the place itself,
                # or a heartbeat, by which the server says that it stands there.
                if events > 2:
                    return answers.success("the source sends its binlog from there")
    except DMError as error:
        return answers.failure(f"{error.message}: {error.cause}" if error.cause else error.message, error.workaround)
    finally:
        timer.cancel()
    return answers.failure(
        f"the source sends nothing from {stream.wanted} on within {_START_SECONDS:g} s",
        "give the end of a transaction, as SHOW BINLOG EVENTS lists them",
    )
