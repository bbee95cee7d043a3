"""TLS without a CA: connections are encrypted where the server can, and nobody's certificate is looked at.

The driver makes a context for each connection and loads the system's certificates into it, which takes longer than all
else of a login (50 to 90 ms of CPU), only to compare nothing with them. So one empty context serves all connections.
Where a CA is configured the driver does as it always does.
"""

from __future__ import annotations

import ssl
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import pymysql

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    _Connection: TypeAlias = "pymysql.Connection[Cursor]"  # generic in the stubs only
else:
    _Connection = pymysql.Connection


@cache
def encrypting_only() -> ssl.SSLContext:
    """The context that asks for no certificate; no thread changes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


class EncryptedConnection(_Connection):
    """A driver's connection that loads no certificates when it is to verify none."""

    def _create_ssl_ctx(self, options: Any) -> ssl.SSLContext:
        if not options:
            return encrypting_only()
        made: ssl.SSLContext = super()._create_ssl_ctx(options)  # type: ignore[misc]  # not in the stubs
        return made
