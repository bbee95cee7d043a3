"""What a server calls replication: of masters and slaves, or of sources and replicas."""

from __future__ import annotations

from dm.demo.private_server import PrivateServer
from dm.demo.servers import ThrowawayServer


def speaks_of_masters(server: PrivateServer) -> bool:
    """Whether it has the former words; some MariaDBs know newer ones as well."""
    former = isinstance(server, ThrowawayServer) and server.installation.release < (8, 4)
    return server.flavor == "mariadb" or former


def replicating(verb: str, replica: PrivateServer) -> str:
    """The statement that starts or stops a replica."""
    return f"{verb} {'SLAVE' if speaks_of_masters(replica) else 'REPLICA'}"


def forgetting_binlogs(server: PrivateServer) -> str:
    """The statement that empties the binlog and its GTIDs."""
    return "RESET MASTER" if speaks_of_masters(server) else "RESET BINARY LOGS AND GTIDS"


def binlog_status(server: PrivateServer) -> str:
    """The question for the binlog's end."""
    return "SHOW MASTER STATUS" if speaks_of_masters(server) else "SHOW BINARY LOG STATUS"
