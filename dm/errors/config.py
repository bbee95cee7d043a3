"""Errors of source and task files."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
