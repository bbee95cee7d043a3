"""Errors of the change feed, in a person's own Spark job."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "feed-without-relay", 32971, "dump-unit", "internal", "medium",
        "{directory} has no relay files",
        "name the directory of one source's relay (`path`): the one with server-uuid.index",
    ),
    ErrorKind(
        "feed-option", 32972, "dump-unit", "internal", "medium",
        "option `{option}` of the feed: {what}",
        "the feed needs `path`, `table`, and `dump` or `structure`; `start` is earliest, latest or FILE:OFFSET",
    ),
    ErrorKind(
        "feed-ddl", 32973, "dump-unit", "upstream", "medium",
        "the feed ends at {place}: behind it the table has other columns or rows: {statement}",
        "everything before it is delivered. Begin a new query behind it, with a new checkpoint location, `start` "
        "{behind} and the table's new structure",
    ),
    ErrorKind(
        "feed-partial-image", 32974, "dump-unit", "upstream", "medium",
        "a row image of {table} lacks column {column}",
        "everything before it is delivered. `SET GLOBAL binlog_row_image = FULL` at the source, and begin a new query "
        "behind such rows",
    ),
    ErrorKind(
        "feed-xa", 32975, "dump-unit", "upstream", "medium",
        "the XA transaction {xid} was prepared or decided apart from its rows, at {place}: the feed does not follow it",
        "everything before it is delivered. Begin a new query behind its end, with a new checkpoint location",
    ),
    ErrorKind(
        "feed-relay-short", 32976, "dump-unit", "internal", "medium",
        "the relay ends at {there}, and the query has been at {wanted}",
        "the relay was lost or made anew: begin a new query with a new checkpoint location",
    ),
    ErrorKind(
        "feed-source-switched", 32977, "dump-unit", "upstream", "medium",
        "the relay goes on with server {now}, it was {before}: the feed can't tell what the new server repeats",
        "everything before it is delivered. Begin a new query with a new checkpoint location, and a place of the new "
        "server as `start`",
    ),
)  # fmt: skip
