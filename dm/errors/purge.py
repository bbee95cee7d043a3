"""Errors of relay storage: what is removed, what is kept, and what a start by time finds in it."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "relay-purge-busy", 30035, "relay-unit", "internal", "medium",
        "another purge of the relay files in {path} is under way",
        "try again in a moment; when it stays like this, see whether a process of the relay was frozen (SIGSTOP)",
        retryable=True,
    ),
    ErrorKind(
        "relay-without-files", 30038, "relay-unit", "internal", "medium",
        "source {source} has no relay files",
        "`dmctl start-relay -s {source}` begins to store them",
    ),
    ErrorKind(
        "relay-disk-low", 30940, "relay-unit", "internal", "high",
        "the relay waits for disk space: {free} are free at {path}, it goes on from {wanted} on{kept}",
        "free disk space, or lower `pause-space` under `purge` in the source file; the relay goes on by itself, and "
        "meanwhile the tasks go on with what is stored",
        retryable=True,
    ),
    ErrorKind(
        "relay-purge-unknown-file", 30941, "relay-unit", "internal", "medium",
        "the relay of source {source} has no file {file} in {sub}: it has {there}",
        "name one of these files with --filename (all before it go), and its directory with --sub-dir",
    ),
    ErrorKind(
        "relay-purge-unknown-directory", 30942, "relay-unit", "internal", "medium",
        "the relay of source {source} has no sub-directory {sub}: it has {there}",
        "name one of these with --sub-dir, or leave it out: the newest is meant then",
    ),
    ErrorKind(
        "start-time-too-late", 20057, "config", "upstream", "medium",
        "nothing in the binlog of source {source} is as late as {time}",
        "give an earlier --start-time; its time zone is the source's unless it says another one "
        "(2026-11-21T10:00:00+02:00)",
    ),
    ErrorKind(
        "start-time-unreadable", 20930, "config", "not-set", "medium",
        "{time} is not a start time",
        "write it as '2026-11-21 10:00:00' or '2026-11-21T10:00:00', with a zone as in 2026-11-21T10:00:00+02:00 where "
        "it is not the source's own",
    ),
    ErrorKind(
        "start-time-with-load", 20931, "config", "internal", "medium",
        "task {task} begins with a full load on source {source}, and what changed during the load is read from where "
        "the load began: a start time would leave changes out",
        "leave --start-time out, or use `task-mode: incremental` for data that is in the target already",
    ),
    ErrorKind(
        "task-runs-elsewhere", 40915, "dm-worker", "downstream", "medium",
        "target connection {connection} of another run of task {task} on source {source} is open",
        "stop that run (another dm-worker with a home of its own); where its process is gone already, the target "
        "notices soon, or end the connection by hand: KILL {connection}",
        retryable=True,
    ),
)  # fmt: skip
