"""Errors as data: one exception type, one catalogue of everything that can go wrong.

The catalogue and what goes with it is imported by who asks for it: `dmctl` rarely does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from dm.errors.error import DMError, ErrorReport, said
from dm.errors.grant import TARGET_PRIVILEGES, WHO, Grantee, account_sql, grant, nobody

if TYPE_CHECKING:
    from dm.errors.catalogue import CATALOGUE
    from dm.errors.general import REFUSED_STATEMENT
    from dm.errors.kind import ErrorKind
    from dm.errors.privilege import PRIVILEGE_ERRORS, privilege_missing

__all__ = [
    "CATALOGUE",
    "PRIVILEGE_ERRORS",
    "REFUSED_STATEMENT",
    "TARGET_PRIVILEGES",
    "WHO",
    "DMError",
    "ErrorKind",
    "ErrorReport",
    "Grantee",
    "account_sql",
    "grant",
    "nobody",
    "privilege_missing",
    "said",
]

_MODULES = {
    "CATALOGUE": "catalogue",
    "REFUSED_STATEMENT": "general",
    "ErrorKind": "kind",
    "PRIVILEGE_ERRORS": "privilege",
    "privilege_missing": "privilege",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
