"""The character set and the collation that a schema of the target has now.

They are asked for with each DDL statement, since a person may change them. The schemata of MySQL's information_schema
are a join over its dictionary, which costs it more than the structure of a table; SHOW CREATE DATABASE reads one entry.
Its text leaves out the collation that a character set has by itself, but for utf8mb4.
"""

from __future__ import annotations

import re
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.errors import REFUSED_STATEMENT, DMError
from dm.ident import Ident
from dm.schema.charset import Collated, default_collation
from dm.sql.context import SourceContext

_SHOWN_SINCE: Final = 80000
_NO_SUCH_SCHEMA: Final = 1049
# The last one: what stands before it is the schema's name, which may be anything.
_SHOWN: Final = re.compile(r".* /\*!40100 DEFAULT CHARACTER SET (\w+)(?: COLLATE (\w+))? \*/", re.DOTALL)


def schema_defaults(connection: TargetConnection, schema: str) -> Collated | None:
    """What tables of the schema have where they name nothing; None if there is no such schema."""
    if connection.flavor == "mysql" and connection.version >= _SHOWN_SINCE and not connection.tidb:
        try:
            text = str(connection.query(f"SHOW CREATE DATABASE {Ident(schema).sql}")[0][1])
        except DMError as error:
            if error.name not in REFUSED_STATEMENT.values():
                raise
            if error.server_errno == _NO_SUCH_SCHEMA:
                return None
            text = ""  # information_schema says what the account may know
        shown = _SHOWN.match(text)
        if shown is not None:
            charset, collation = shown.groups()
            context = SourceContext(connection.flavor, connection.version, schema)
            return Collated(charset, collation or default_collation(charset, context))
    rows = connection.query(
        "SELECT default_character_set_name, default_collation_name FROM information_schema.schemata"
        " WHERE schema_name = %s",
        (schema,),
    )
    return Collated(str(rows[0][0]), str(rows[0][1])) if rows else None
