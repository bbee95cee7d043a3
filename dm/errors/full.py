"""Errors of the full dump and load."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
