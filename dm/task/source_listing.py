"""What a source's server has: its schemas, and the tables of one."""

from __future__ import annotations

from contextlib import closing

from dm.config import SourceConfig
from dm.ident import TableName
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import connect, fetch
from dm.sourcelog.upstream.facts import list_tables


class SourceListing:
    """Asks servers, each question in a session of its own. Raises DMError."""

    @reads_answers
    def schemas(self, config: SourceConfig) -> list[str]:
        """All schemas that the account sees, without tables too."""
        with closing(connect(config.endpoint)) as connection:
            rows = fetch(connection, "SELECT schema_name FROM information_schema.schemata ORDER BY 1")
        return [name.decode() if isinstance(name, bytes) else str(name) for (name,) in rows]

    def tables(self, config: SourceConfig) -> list[TableName]:
        """All tables that the account sees; no views."""
        with closing(connect(config.endpoint)) as connection:
            return [*list_tables(connection)]
