"""Statements that put every kind of transaction into a server's binlog."""

from __future__ import annotations

from dm.demo.servers import ThrowawayServer


def of_every_kind(server: ThrowawayServer, schema: str) -> None:
    """Transactions of every form, DDL, XA, rollbacks, compressed ones, over three binlog files."""
    server.execute(
        f"CREATE TABLE {schema}.a (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(200), b LONGBLOB)",
        f"CREATE TABLE {schema}.m (id INT PRIMARY KEY) ENGINE=MyISAM",
        f"INSERT INTO {schema}.a (v) VALUES ('one'), ('two')",
        "FLUSH BINARY LOGS",
        "BEGIN",
        f"INSERT INTO {schema}.a (v) VALUES ('three')",
        "SAVEPOINT here",
        f"UPDATE {schema}.a SET v = 'changed'",
        "ROLLBACK TO SAVEPOINT here",
        "COMMIT",
        "BEGIN",
        f"INSERT INTO {schema}.m VALUES (1)",
        f"INSERT INTO {schema}.a (v) VALUES ('rolled back beside a MyISAM row')",
        "ROLLBACK",
        f"ALTER TABLE {schema}.a ADD c INT, ADD INDEX (v)",
        f"CREATE TABLE {schema}.b AS SELECT * FROM {schema}.a",
        f"DROP TABLE {schema}.b",
    )
    _xa(server, schema, "commits", "COMMIT")
    server.execute("FLUSH BINARY LOGS")
    _xa(server, schema, "goes back", "ROLLBACK")
    server.execute(
        "XA START 'in one phase'",
        f"INSERT INTO {schema}.a (v) VALUES ('one phase')",
        "XA END 'in one phase'",
        "XA COMMIT 'in one phase' ONE PHASE",
    )
    if server.flavor == "mysql":
        server.execute(
            "SET SESSION binlog_transaction_compression = ON",
            f"INSERT INTO {schema}.a (b) VALUES (REPEAT('compress me ', 10000))",
            "SET SESSION binlog_rows_query_log_events = ON",
            f"INSERT INTO {schema}.a (v) VALUES ('with its text')",
            "SET gtid_next = 'AUTOMATIC:tagged'",
            f"INSERT INTO {schema}.a (v) VALUES ('tagged')",
        )
    server.execute(*(f"INSERT INTO {schema}.a (v) VALUES ('row {number}')" for number in range(100)))


def _xa(server: ThrowawayServer, schema: str, xid: str, verdict: str) -> None:
    server.execute(
        f"XA START '{xid}'",
        f"INSERT INTO {schema}.a (v) VALUES ('{xid}')",
        f"XA END '{xid}'",
        f"XA PREPARE '{xid}'",
    )
    server.execute(f"XA {verdict} '{xid}'")
