"""Errors of the syncer and of the target's progress tables."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
