"""Errors of DDL text and of the schema tracker."""

from dm.errors.kind import ErrorKind

KINDS: tuple[ErrorKind, ...] = ()
