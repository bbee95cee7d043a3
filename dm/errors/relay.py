"""Errors of the relay and of the dump stream."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
