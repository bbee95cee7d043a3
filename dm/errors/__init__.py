"""Errors as data: one exception type, one catalogue of everything that can go wrong."""

from dm.errors.catalogue import CATALOGUE
from dm.errors.error import DMError, ErrorReport
from dm.errors.kind import ErrorKind

__all__ = ["CATALOGUE", "DMError", "ErrorKind", "ErrorReport"]
