"""Errors of relay storage: what is removed, what is kept, and what a start by time finds in it."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "relay-purge-busy", 30035, "relay-unit", "internal", "medium",
        "another purge of the relay files in {path} is running",
        "try again in a moment; if this persists, check for a frozen relay process (SIGSTOP)",
        retryable=True,
    ),
    ErrorKind(
        "relay-without-files", 30038, "relay-unit", "internal", "medium",
        "source {source} has no relay files",
        "`dmctl start-relay -s {source}` starts to store them",
    ),
    ErrorKind(
        "relay-disk-low", 30940, "relay-unit", "internal", "high",
        "the relay waits for disk space: {path} has {free} free, the relay continues at {wanted}{kept}",
        "free disk space, or lower `pause-space` under `purge` in the source file; the relay then continues by "
        "itself. The tasks continue with the stored files",
        retryable=True,
    ),
    ErrorKind(
        "relay-purge-unknown-file", 30941, "relay-unit", "internal", "medium",
        "the relay of source {source} has no file {file} in {sub}: it has {there}",
        "name one of these files with --filename (all files before it are removed), and its directory with "
        "--sub-dir",
    ),
    ErrorKind(
        "relay-purge-unknown-directory", 30942, "relay-unit", "internal", "medium",
        "the relay of source {source} has no sub-directory {sub}: it has {there}",
        "name one of these with --sub-dir, or omit it for the newest",
    ),
    ErrorKind(
        "start-time-too-late", 20057, "config", "upstream", "medium",
        "the binlog of source {source} has nothing as late as {time}",
        "give an earlier --start-time; without a zone (2026-11-21T10:00:00+02:00) it is in the source's time zone",
    ),
    ErrorKind(
        "start-time-unreadable", 20930, "config", "not-set", "medium",
        "{time} is not a start time",
        "write it as '2026-11-21 10:00:00' or '2026-11-21T10:00:00', with a zone (2026-11-21T10:00:00+02:00) if it "
        "is not the source's",
    ),
    ErrorKind(
        "start-time-with-load", 20931, "config", "internal", "medium",
        "task {task} begins with a full load on source {source}, and changes made during the load are read from "
        "its start on: a start time would skip changes",
        "omit --start-time, or use `task-mode: incremental` for data that is already in the target",
    ),
    ErrorKind(
        "task-runs-elsewhere", 40915, "dm-worker", "downstream", "medium",
        "another run of task {task} on source {source} has the target connection {connection} open",
        "stop that run (another dm-worker with its own home); if its process is already gone, wait for the target "
        "to notice, or end the connection by hand: KILL {connection}",
        retryable=True,
    ),
)  # fmt: skip
