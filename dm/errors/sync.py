"""Errors of the syncer and of the target's progress tables."""

from dm.errors.kind import ErrorKind
from dm.errors.way_out import LOAD_AGAIN, START_LATER, WITH_NEW_FILE

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "target-names-alike",
        36938,
        "sync-unit",
        "downstream",
        "high",
        "the target does not tell upper from lower case (`lower_case_table_names`): {table} and {other_table} of the"
        " source would be one there, {target} and {other_target}",
        "send one of them to another name with `routes`, or both to the same name if they are to be merged, with"
        " `case-sensitive: true` so that patterns tell them apart; or leave one out with `block-allow-list`: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "column-missing",
        36920,
        "sync-unit",
        "internal",
        "high",
        "source table {source} has columns that target table {target} lacks: {columns}",
        "add them to the target (`ALTER TABLE {target_sql} ADD COLUMN {first} ...`) and `dmctl resume-task`; or keep"
        " the table out with `block-allow-list`: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "columns-narrower",
        36974,
        "sync-unit",
        "downstream",
        "high",
        "target table {target} may take values of source table {source} for other values, without an error: {columns}",
        "give the columns the source's types at the target (`ALTER TABLE {target_sql} MODIFY {first} ...`) and `dmctl"
        " resume-task`; or `narrower-columns: accept` in `syncers`, if what the target makes of the values will do: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "row-missing",
        36921,
        "sync-unit",
        "downstream",
        "high",
        "{operation} on {table} found no such row at the target: {key}",
        "somebody else changed the target, or it did not start from the source's data: put the row back as the source"
        " had it and `dmctl resume-task`, or load the table again. Where the table has a key, `safe-mode: true` in"
        " `syncers` lets the source's rows win, and `missing-row: count` counts such rows and goes on without them: "
        + WITH_NEW_FILE,
    ),
    ErrorKind(
        "partial-row-image",
        11126,
        "binlog-op",
        "upstream",
        "high",
        "a row image of {table} lacks column {column}, without which the change can't be applied exactly",
        "`SET GLOBAL binlog_row_image = FULL` at the source, and the same in sessions that set their own value; then "
        + LOAD_AGAIN
        + ", or "
        + START_LATER,
    ),
    ErrorKind(
        "member-missing",
        36923,
        "sync-unit",
        "downstream",
        "high",
        "column {column} of the target has no member {label!r}",
        "add the member to the target's ENUM or SET column and resume the task",
    ),
    ErrorKind(
        "duplicate-key",
        36924,
        "sync-unit",
        "downstream",
        "high",
        "the target already has a row with a key of this change: {statement}",
        "RawCause names key and value: two sources that write one key need different tables or keys; a row that"
        " somebody else wrote must go; `insert-mode: replace` in `syncers` lets the later row win; then resume",
    ),
    ErrorKind(
        "commit-outcome-unknown",
        36925,
        "sync-unit",
        "downstream",
        "medium",
        "the connection to {address} broke while it committed: the outcome is not known yet",
        "nothing to do: the task reads its progress row at the target, which tells, and goes on",
        retryable=True,
    ),
    ErrorKind(
        "transaction-aborted",
        36926,
        "sync-unit",
        "downstream",
        "medium",
        "the target rolled a transaction back: {reason}",
        "the task tries again by itself; if it stays, see what else writes to these tables at the target",
        retryable=True,
    ),
    ErrorKind(
        "target-unavailable",
        36927,
        "sync-unit",
        "downstream",
        "medium",
        "the target {address} does not accept writes now: {reason}",
        "the task tries again by itself; see RawCause, and whether the server is read-only, full or shutting down",
        retryable=True,
    ),
    ErrorKind(
        "packet-too-large",
        36928,
        "sync-unit",
        "downstream",
        "high",
        "a statement of {size} bytes is longer than the target's max_allowed_packet lets it be: {statement}",
        "raise `max_allowed_packet` at the target (`SET GLOBAL max_allowed_packet = 1073741824` is the most) and"
        " `dmctl resume-task`; it should be several times the source's, since bytes are written as two digits each",
    ),
    ErrorKind(
        "target-table-missing",
        36070,
        "sync-unit",
        "downstream",
        "high",
        "the target has no table {table}{unread}",
        "create it at the target, or start the task with a full load (which alone brings older rows), or"
        " route or filter the source table; then resume",
    ),
    ErrorKind(
        "target-table-unsuitable",
        36929,
        "sync-unit",
        "downstream",
        "high",
        "target table {table} can't take changes: {reason}",
        "replicate into a base table of a transactional engine (`ALTER TABLE {table_sql} ENGINE=InnoDB`), then resume",
    ),
    ErrorKind(
        "foreign-key-kin-keyless",
        36957,
        "sync-unit",
        "downstream",
        "high",
        "the target checks foreign keys of {table}, and the source does not fill the columns of its key",
        "rows without a key of the source's and foreign keys that are checked can't be brought into one order: give"
        " the table a primary key of columns that the source has, or take `foreign_key_checks` out of `session` under"
        " `target-database`: " + WITH_NEW_FILE,
    ),
    ErrorKind(
        "value-changed",
        36931,
        "sync-unit",
        "downstream",
        "high",
        "{operation} on {table}: the target would store another value than the source has",
        "compare the column types of source and target; a row with an ENUM error value must fit the target otherwise",
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
)
