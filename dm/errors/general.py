"""Errors of the vocabulary: positions, connections, the system below us."""

from typing import Final

from dm.errors.kind import WITH_NEW_FILE, ErrorKind

REFUSED_STATEMENT: Final = {True: "query-failed", False: "statement-failed"}
"""The error of a statement that a server refused, by whether it only reads; DM tells the two apart."""

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "position-incomparable", 24900, "checkpoint", "internal", "high",
        "positions {ours} and {theirs} belong to different servers or to files of another name, and no GTID sets relate"
        " them",
        "turn GTID on at the source, or stop the task and start it again from an explicit position (`meta`)",
    ),
    ErrorKind(
        "stored-format-newer", 24903, "checkpoint", "internal", "high",
        "{what} in {where} has format {found}, and this dm knows formats up to {known}: a newer dm has stored it",
        "run the dm that has stored it, or a newer one (docs/upgrading.md); or {way}",
    ),
    ErrorKind(
        "connection-failed", 10002, "database", "not-set", "high",
        "can't connect to {role} {address} as user {user}",
        "check host, port, user and password in the file, and that the server is up",
        retryable=True,
    ),
    ErrorKind(
        "access-denied", 10900, "database", "not-set", "high",
        "{role} {address} refuses user {user}",
        "check user and password in the configuration file; the cause has the server's words",
    ),
    ErrorKind(
        "login-unsafe", 10902, "database", "not-set", "high",
        "the password of user {user} can't be sent to {role} {address}: {what}",
        "{way}",
    ),
    ErrorKind(
        "certificate-refused", 10903, "database", "not-set", "high",
        "the certificate of {role} {address} is not accepted: {why}",
        "{way}",
    ),
    ErrorKind(
        "privilege-missing", 10901, "database", "not-set", "high",
        "user {user} of {role} {address} lacks {lacks}",
        "grant it to the account ({grant}), then give again the verb that reports it: `dmctl resume-task` for a task, "
        "`dmctl resume-relay` for a relay, `dmctl validation start` for a validator; `dmctl check-task` on the task "
        "file lists all privileges that a task lacks, with their statements",
    ),
    ErrorKind(
        "connection-lost", 10003, "database", "not-set", "medium",
        "the connection to {role} {address} broke",
        "the task tries again by itself; check the server and the network",
        retryable=True,
    ),
    ErrorKind(
        "query-failed", 10005, "database", "not-set", "high",
        "{role} refused a query: {statement}",
        "the cause has the server's words",
    ),
    ErrorKind(
        "statement-failed", 10006, "database", "not-set", "high",
        "{role} refused a statement: {statement}",
        "the cause has the server's words", of_tables=True,
    ),
    ErrorKind(
        "json-too-deep", 10914, "database", "downstream", "high",
        "the target refuses the row of {table} with {key}: the JSON document in its column {column} has {depth} levels,"
        " and MariaDB's check json_valid takes {most}",
        "`session: {{check_constraint_checks: 0}}` under `target-database` in the task file has the target take such"
        " documents as text, which its JSON functions do not read then: " + WITH_NEW_FILE + "; or make the document"
        " less deep at the source and load the table again; or exclude the table with `block-allow-list`",
        values=("key",), of_tables=True,
    ),
    ErrorKind(
        "row-check-refused", 10904, "database", "not-set", "high",
        "a CHECK of the target's table refused a row: {statement}",
        "the cause names the CHECK. Where the source does not ask it, the target need not: `ALTER TABLE .. ALTER CHECK "
        ".. NOT ENFORCED` (MySQL), then `dmctl resume-task`; or `session: {{check_constraint_checks: 0}}` in "
        "`target-database` (MariaDB): " + WITH_NEW_FILE + ". If the source asks it as well, check-task names what makes"
        " the two answers differ", of_tables=True,
    ),
    ErrorKind(
        "row-expression-failed", 10905, "database", "not-set", "high",
        "an expression of the target's table has no value for a row: {statement}",
        "the cause names the expression. The source's session had another sql_mode, most often with "
        "NO_UNSIGNED_SUBTRACTION: write it as `session: {{sql_mode: ..}}` in `target-database`. `dmctl stop-task`; then"
        " `FLUSH TABLES` for the table at the target, since a server keeps what it knows of an open table; then `dmctl "
        "start-task` with the changed file continues from here", of_tables=True,
    ),
    ErrorKind(
        "row-value-refused", 10906, "database", "not-set", "high",
        "a column of the target's table does not take the value of a row: {statement}",
        "the cause names the column: compare its definition at the target with the source's (`dmctl binlog-schema "
        "list` has the source's at this place), `ALTER TABLE` it at the target, and resume the task", of_tables=True,
    ),
    ErrorKind(
        "row-partition-missing", 10907, "database", "not-set", "high",
        "no partition of the target's table takes a row: {statement}",
        "the cause has the value: add the partition at the target (`ALTER TABLE .. ADD PARTITION`), and resume the "
        "task", of_tables=True,
    ),
    ErrorKind(
        "row-reference-refused", 10908, "database", "not-set", "high",
        "a foreign key of the target's table refused a row: {statement}",
        "the cause names the foreign key. The row that it refers to is missing at the target, or must not go since "
        "others refer to it: put them right there and resume the task. If the table that it refers to is not among the "
        "task's, nobody brings its rows: leave `foreign_key_checks` out of the session of `target-database`, or "
        "drop the key at the target", of_tables=True,
    ),
    ErrorKind(
        "internal-error", 11900, "functional", "internal", "high",
        "internal error: {what}",
        "this is a defect of dm, the log has the details; `dmctl resume-task` resumes a task, `dmctl cut-over` called "
        "again goes on with a cut-over at its switch, with --abort with one that is aborted",
    ),
    ErrorKind(
        "memory-exhausted", 11901, "functional", "internal", "high",
        "{what} got no more memory from the system",
        "the task tries again by itself; if this persists, give the machine more memory, or lower `memory-quota` and "
        "`worker-count` of `syncers`, `threads` of `mydumpers` or `pool-size` of `loaders`: `dmctl stop-task` and "
        "`dmctl start-task` with the changed file continue from here",
        retryable=True,
    ),
    ErrorKind(
        "server-not-installed", 11910, "functional", "internal", "high",
        "there is no {flavor} server to start: {missing}",
        "run `make install`, which installs both servers",
    ),
    ErrorKind(
        "server-not-started", 11911, "functional", "internal", "high",
        "the private {flavor} server in {directory} did not start; its log ends with:\n{log}",
        "see the log; memory, disk space and access rights are the usual reasons",
    ),
    ErrorKind(
        "demo-stuck", 11912, "functional", "internal", "high",
        "the demo is stuck in one step: {what}; nothing new for {seconds} s",
        "the status above and the logs in {log} tell why",
    ),
    ErrorKind(
        "pace-file-unusable", 11920, "functional", "internal", "high",
        "the file {path}, by which the processes of a task share its pace, can't be used",
        "see the cause; free the disk or mend the directory's owner and mode, then `dmctl resume-task`",
        retryable=True,
    ),
    ErrorKind(
        "pace-file-foreign", 11921, "functional", "internal", "high",
        "the file {path} is of a newer dm, or of another program",
        "start the version of dm that wrote it, or remove the file while the task rests: only limits that `dmctl pace` "
        "set at run time are in it",
    ),
    ErrorKind(
        "pace-too-long", 11922, "functional", "not-set", "medium",
        "the limits of `pace` take {length} bytes, and {most} at most are kept",
        "shorten `query`: a view or a function at the target can hold it",
    ),
    ErrorKind(
        "pace-driver-silent", 11923, "functional", "internal", "medium",
        "an executor of the cluster can't ask the driver at {host}:{port} for the task's pace",
        "open the driver's ports to the executors; Spark's own `spark.driver.host` names the address",
        retryable=True,
    ),
)  # fmt: skip
