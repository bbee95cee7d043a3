"""Errors of the target's sessions: reached or not, their limits, what they are set to."""

from dm.errors.kind import WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "transaction-aborted",
        36926,
        "sync-unit",
        "downstream",
        "medium",
        "the target rolled a transaction back: {reason}",
        "the task tries again by itself; if this persists, find other writers to these tables at the target",
        retryable=True,
    ),
    ErrorKind(
        "target-unavailable",
        36927,
        "sync-unit",
        "downstream",
        "medium",
        "target {address} accepts no writes now: {reason}",
        "the task tries again by itself; the cause tells whether the server is read-only, full or shutting down",
        retryable=True,
    ),
    ErrorKind(
        "tidb-sessions-unseen",
        36965,
        "sync-unit",
        "downstream",
        "medium",
        "TiDB at {address} does not tell within {seconds} s which sessions all servers of its cluster have"
        " (`information_schema.cluster_processlist`), so nobody knows whether an earlier run still writes",
        "TiDB servers ask each other, and themselves, through their status ports: leave `report-status` on in their"
        " configuration, and open `status-port` (10080) between all of them; the cause names the server that does not"
        " answer; the task tries again by itself",
        retryable=True,
    ),
    ErrorKind(
        "packet-too-large",
        36928,
        "sync-unit",
        "downstream",
        "high",
        "a statement of {size} bytes exceeds the target's max_allowed_packet: {statement}",
        "raise `max_allowed_packet` at the target (at most `SET GLOBAL max_allowed_packet = 1073741824`) and "
        "`dmctl resume-task`; make it several times the source's, since each byte is written as two digits",
        of_tables=True,
    ),
    ErrorKind(
        "target-limit",
        36962,
        "sync-unit",
        "downstream",
        "high",
        "TiDB takes no row, statement or transaction of that size: {statement}",
        "raise {limit} at the target, then `dmctl resume-task`; smaller batches (`batch` in `syncers`) help where it is"
        " not one row or one statement of the source that is so large: " + WITH_NEW_FILE,
        of_tables=True,
    ),
    ErrorKind(
        "time-zone-unknown",
        36991,
        "sync-unit",
        "downstream",
        "high",
        "the target does not know time zone {zone}, in which it is to fill column `{column}` of {table}",
        "load the zones (`mysql_tzinfo_to_sql /usr/share/zoneinfo | mysql -u root mysql` at a MySQL or MariaDB; a TiDB"
        " has those of its hosts) and `dmctl resume-task`, or give `timezone` as an offset such as `+08:00`",
        of_tables=True,
    ),
    ErrorKind(
        "session-variable-refused",
        36990,
        "sync-unit",
        "downstream",
        "high",
        "the {role} refuses session variable `{variable}` ({place})",
        "correct the value, or leave the variable out, in `session` of the file; then stop the task and start it",
    ),
    ErrorKind(
        "session-variable-invalid",
        36932,
        "sync-unit",
        "internal",
        "high",
        "{variable!r} in `session` is not the name of a variable",
        "correct the `session` block of the target in the task file",
    ),
    ErrorKind(
        "lane-stalled",
        36902,
        "sync-unit",
        "downstream",
        "medium",
        "the target did not finish the running transactions within {seconds} s",
        "find the blocking session with SHOW PROCESSLIST at the target; the task tries again by itself",
        retryable=True,
    ),
)
