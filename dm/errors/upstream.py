"""Errors of a source with several servers behind it, and of servers that are none."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "source-behind",
        30950,
        "relay-unit",
        "upstream",
        "medium",
        "{address} can't take over: it lacks {missing}; read so far: {ours}; it has: {theirs}",
        "wait until it has caught up or the other address is back, the task then continues by itself; if the "
        "missing transactions are lost for ever, start again with a new full load",
        retryable=True,
    ),
    ErrorKind(
        "dump-rotation-refused",
        30951,
        "relay-unit",
        "upstream",
        "high",
        "the source announces binlog file {file!r} behind {before!r}: {what}",
        "check that host and port belong to a MySQL or MariaDB server",
    ),
    ErrorKind(
        "server-answer-garbled",
        30952,
        "relay-unit",
        "upstream",
        "high",
        "{address} does not answer as a MySQL or MariaDB server does: {what}",
        "check that host and port belong to a MySQL or MariaDB server",
    ),
    ErrorKind(
        "gtid-order-loose",
        30953,
        "sync-unit",
        "upstream",
        "high",
        "the source is now server {now}, it was {before}; with gtid_strict_mode=OFF its GTID numbers do not tell "
        "what is already applied; read so far: {ours}",
        "if no server of the group has written numbers out of order (mysqlbinlog shows them), SET GLOBAL "
        "gtid_strict_mode = ON at the source and resume; otherwise start again from an explicit position of the "
        "new server",
    ),
    ErrorKind(
        "config-standby-without-gtid",
        20932,
        "config",
        "internal",
        "medium",
        "`standby` needs `enable-gtid: true`: only a GTID locates a position in another server's binlog",
        "set `enable-gtid: true`, or remove `standby`",
    ),
)
