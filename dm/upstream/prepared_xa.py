"""The XA transactions that a server has prepared, spelled as in its binlog."""

from __future__ import annotations

from dm.flavor import Flavor
from dm.upstream.connection import Connection, fetch


def prepared_xids(connection: Connection, flavor: Flavor) -> frozenset[str]:
    """The xids that `XA RECOVER` lists, as the server spells them in the XA statements it logs; raises DMError.

    MySQL requires XA_RECOVER_ADMIN, and declares the bytes of an xid as text unless told to convert them. MariaDB
    returns bytes; it spells converted ones in two ways. A MySQL that does not know CONVERT XID (before 5.7.5) logs an
    XA transaction with its COMMIT only, so it is never asked.
    """
    found = set()
    statement = "XA RECOVER" if flavor == "mariadb" else "XA RECOVER CONVERT XID"
    for format_id, global_length, _, data in fetch(connection, statement):
        digits = data.hex() if isinstance(data, bytes) else str(data).removeprefix("0x").lower()
        cut = 2 * int(str(global_length))
        found.add(f"X'{digits[:cut]}',X'{digits[cut:]}',{format_id}")
    return frozenset(found)
