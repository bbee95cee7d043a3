"""Errors of `start-task --until`: a place that can't be the end of a task."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "until-unreadable",
        20980,
        "config",
        "not-set",
        "medium",
        "{place} is no place to end at",
        "write a file and an offset (mysql-bin.000003:154), a GTID set of the source, or a time "
        "('2026-11-21 10:00:00', in the source's time zone unless it names another)",
    ),
    ErrorKind(
        "until-without-sync",
        20981,
        "config",
        "internal",
        "medium",
        "task {task} has the task-mode {mode}: it ends with its load, and reads no binlog that --until could end",
        "leave --until out, or use `task-mode: all` or `incremental`",
    ),
    ErrorKind(
        "until-of-several-sources",
        20982,
        "config",
        "internal",
        "medium",
        "a place of one binlog is no place of the others: task {task} has the sources {sources}",
        "start the sources one by one with -s, each with a place of its own, or give a time",
    ),
    ErrorKind(
        "until-passed",
        36994,
        "sync-unit",
        "internal",
        "medium",
        "the task can't end at {place}: everything up to {checkpoint} is applied, or may be",
        "give a place at or behind that one. To bring a target to an earlier state, load it anew: with --remove-meta, "
        "into empty tables",
    ),
    ErrorKind(
        "until-elsewhere",
        36995,
        "sync-unit",
        "upstream",
        "medium",
        "the task is to end at {place} of server {server}, and it reads the binlog of server {now}: places of two "
        "servers can't be compared",
        "`dmctl stop-task`, and start it again with a GTID set or a time as --until",
    ),
    ErrorKind(
        "until-without-gtids",
        36996,
        "sync-unit",
        "upstream",
        "medium",
        "the task can't end at the GTID set {place}: it begins at {checkpoint}, of which no GTID set is known",
        "give a file and an offset, or a time, as --until",
    ),
)
