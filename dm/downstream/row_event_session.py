"""Having a session take row events, and what forbids it.

BINLOG needs a privilege: REPLICATION_APPLIER in MySQL, BINLOG REPLAY in MariaDB. It begins with a format description,
once in each session; MySQL takes that as the start of another server's transactions, and goes on with its own only
when it is told to (error 1782 otherwise).

Some variables make a server apply row events in another way than it applies SQL (all measured on MySQL 9.7 and MariaDB
10.11):

- `slave_exec_mode` IDEMPOTENT of MariaDB, `rbr_exec_mode` of MySQL's session: what is missing, or there already, is
  passed over. (MySQL's `replica_exec_mode` is for its replicas only.)
- `slave_type_conversions`: values are made to fit without an error.
- `replicate_rewrite_db` of MariaDB: the rows go to another schema. (The other filters of replication, and all of
  MySQL's, don't concern BINLOG.) A server that has no such variable, before 10.11, may have the option all the same,
  and no session can see it.
"""

from __future__ import annotations

from typing import Final

from dm.binlog.row_events import binlog_statement, format_description
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.flavor import Flavor

APPLIER: Final[dict[Flavor, str]] = {"mysql": "REPLICATION_APPLIER", "mariadb": "BINLOG REPLAY"}
"""The privilege that BINLOG needs."""

NOT_AT_TIDB: Final = "TiDB takes no row events"

_ACCESS_DENIED: Final = 1227
_REWRITTEN: Final = "replicate_rewrite_db"
# What each has to be, where the server has it: the older and the newer names of MySQL.
_WANTED: Final[dict[Flavor, dict[str, str]]] = {
    "mysql": {"rbr_exec_mode": "STRICT", "replica_type_conversions": "", "slave_type_conversions": ""},
    "mariadb": {"slave_exec_mode": "STRICT", "slave_type_conversions": "", _REWRITTEN: ""},
}


def take_row_events(connection: TargetConnection) -> str:
    """Have the session take row events from now on; gives why it does not, empty where it does."""
    if connection.tidb:  # which understands BINLOG, and does nothing
        return NOT_AT_TIDB
    try:
        why = _unsuitable(connection)
        if why:
            return why
        connection.execute(binlog_statement(format_description(connection.version_text)))
        if connection.flavor == "mysql":
            connection.execute("SET SESSION gtid_next = 'AUTOMATIC'")
    except DMError as error:
        if error.retryable:
            raise
        if error.server_errno == _ACCESS_DENIED:
            return f"the account lacks {APPLIER[connection.flavor]} at the target"
        return f"the target refuses row events: {error.cause}"
    return ""


def _unsuitable(connection: TargetConnection) -> str:
    wanted = _WANTED[connection.flavor]
    names = ",".join(f"'{name}'" for name in wanted)
    found = {
        str(name): str(value)
        for name, value in connection.query(f"SHOW SESSION VARIABLES WHERE Variable_name IN ({names})")
    }
    for name, value in found.items():
        if value.upper() != wanted[name]:
            return f"{name} is {value} at the target"
    if connection.flavor == "mariadb" and _REWRITTEN not in found:
        return f"the target does not say whether it has {_REWRITTEN}"
    return ""
