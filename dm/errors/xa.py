"""Errors of XA transactions whose rows wait for their verdict."""

from dm.errors.kind import LOAD_AGAIN, START_LATER, WITH_NEW_FILE, ErrorKind

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "xa-prepare-missing",
        36940,
        "sync-unit",
        "upstream",
        "high",
        "XA transaction {xid} was committed, but the rows of its XA PREPARE are missing: the PREPARE lies before "
        "the task's start, was read on another host or into a lost work directory, or was not logged",
        "continue on the host that has the task's work directory, or copy it here; otherwise "
        + START_LATER
        + ", or "
        + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-left-out",
        36941,
        "sync-unit",
        "internal",
        "high",
        "XA transaction {xid} changed {table} before its XA PREPARE, when the task's rules excluded that table; it "
        "commits now that they include it, and the rows were not kept",
        "exclude the table until the task is past this transaction (" + WITH_NEW_FILE + "), or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-damaged",
        36942,
        "sync-unit",
        "internal",
        "high",
        "the rows of XA transaction {xid}, held since its XA PREPARE, can't be read from {file}: {what}",
        "restore the file from a backup of the work directory and `dmctl resume-task`; otherwise "
        + START_LATER
        + ", or "
        + LOAD_AGAIN
        + "; check the disk (dmesg, smartctl)",
    ),
)
