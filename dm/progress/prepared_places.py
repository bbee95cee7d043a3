"""Which XA transactions are undecided at L: stored with L, so that another host can read their rows again.

The rows wait on the host's disk, and its list says the same (`dm.sourcelog.stream.prepared`). This copy of the list is
in the transaction that stores L. Where nothing is undecided there is no row. What an older dm has stored after it has
another L, which the list does not reach: then it does not count. The text is the list's own, with its number.
"""

from __future__ import annotations

from dm.downstream.connection import TargetConnection
from dm.progress.tables import CHARSET, SubtaskKey, reads

_DEFINITION = """CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(32) NOT NULL,
    entries LONGTEXT NOT NULL,
    PRIMARY KEY (id)
) ENGINE=InnoDB {charset}"""


def create_prepared_table(connection: TargetConnection, key: SubtaskKey) -> None:
    """Create the table if it is missing; not inside a transaction."""
    connection.execute(_DEFINITION.format(table=key.prepared.sql, charset=CHARSET))


@reads(lambda key: key.prepared)
def read_prepared(connection: TargetConnection, key: SubtaskKey) -> str:
    """The list as it was stored with a checkpoint; empty where there is none. The table is there."""
    rows = connection.query(f"SELECT entries FROM {key.prepared.sql} WHERE id = %s", (key.source_id,))
    return str(rows[0][0]) if rows else ""


def store_prepared(connection: TargetConnection, key: SubtaskKey, text: str) -> None:
    """Inside the transaction that stores L: the list at L; empty: nothing is undecided there."""
    if text:
        connection.execute(f"REPLACE INTO {key.prepared.sql} (id, entries) VALUES (%s, %s)", (key.source_id, text))
    else:
        connection.execute(f"DELETE FROM {key.prepared.sql} WHERE id = %s", (key.source_id,))
