"""Errors of reading binlog events."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
