"""Errors of XA transactions whose rows wait for their verdict."""

from dm.errors.kind import ErrorKind
from dm.errors.way_out import LOAD_AGAIN, START_LATER, WITH_NEW_FILE

KINDS: tuple[ErrorKind, ...] = (
    ErrorKind(
        "xa-prepare-missing",
        36940,
        "sync-unit",
        "upstream",
        "high",
        "XA transaction {xid} was committed, and the rows of its XA PREPARE are not here: the PREPARE lies before the"
        " start of the task, was read on another host or into a work directory that is gone, or was not logged",
        "go on where the task's work directory is, or bring it here; else " + START_LATER + ", or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-left-out",
        36941,
        "sync-unit",
        "internal",
        "high",
        "XA transaction {xid} changed {table} before its XA PREPARE, when the task's rules left that table out, and is"
        " committed now that they want it; the rows were not kept",
        "leave the table out until this transaction is passed (" + WITH_NEW_FILE + "), or " + LOAD_AGAIN,
    ),
    ErrorKind(
        "xa-rows-damaged",
        36942,
        "sync-unit",
        "internal",
        "high",
        "the rows of XA transaction {xid}, held since its XA PREPARE, can't be read from {file}: {what}",
        "bring the file back from a backup of the work directory and `dmctl resume-task`; else "
        + START_LATER
        + ", or "
        + LOAD_AGAIN
        + "; look for errors of that disk (dmesg, smartctl)",
    ),
)
