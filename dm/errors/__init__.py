"""Errors as data: one exception type, one catalogue of everything that can go wrong."""

from dm.errors.catalogue import CATALOGUE
from dm.errors.error import DMError, ErrorReport, said
from dm.errors.general import REFUSED_STATEMENT
from dm.errors.grant import TARGET_PRIVILEGES, WHO, Grantee, account_sql, grant, nobody
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
