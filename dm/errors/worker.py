"""Errors of the daemon, its API and dmctl."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
