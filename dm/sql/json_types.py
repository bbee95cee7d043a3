"""What to ask MySQL for the types inside JSON documents, which their text does not say.

The answer lists the values whose type is not the one that their text would get, each with its number in the order in
which the paths find values, its type and its text; it is `NOTHING` where there is none. `dm.dumpfiles.json_types` reads
it. The server gives NULL for a list that is longer than its max_allowed_packet, with a warning that nobody sees between
those of other rows.
"""

from __future__ import annotations

from typing import Final

from dm.ident import Ident, TableName

_FIRST_WITH_JSON_TABLE: Final = 80004

# Whether the value is not what the server's reader of JSON makes of its text: up to 4294967295 it makes signed numbers,
# of greater ones unsigned. The first words are the most frequent: the server compares with one after the other.
_SPECIAL: Final = (
    "CASE JSON_TYPE({value}) WHEN 'STRING' THEN 0 WHEN 'INTEGER' THEN {value} > 4294967295 WHEN 'DOUBLE' THEN 0"
    " WHEN 'OBJECT' THEN 0 WHEN 'ARRAY' THEN 0 WHEN 'NULL' THEN 0 WHEN 'BOOLEAN' THEN 0"
    " WHEN 'UNSIGNED INTEGER' THEN {value} <= 4294967295 ELSE {value} IS NOT NULL END"
)
_LISTED: Final = (
    "(SELECT JSON_ARRAYAGG(JSON_ARRAY(o, JSON_TYPE(v), CAST(v AS CHAR))) FROM JSON_TABLE({document}, '{path}'"
    " COLUMNS (o FOR ORDINALITY, v JSON PATH '$')) t WHERE {special})"
)
# Most documents have no such value, and to look for one costs the server half of what listing none does.
_ANY: Final = "EXISTS (SELECT 1 FROM JSON_TABLE({document}, '{path}' COLUMNS (v JSON PATH '$')) t WHERE {special})"
NOTHING: Final = b"{}"
_PATHS: Final = ("$**.*", "$**[*]")  # members of objects, elements of arrays


def tells_types(version: int) -> bool:
    """Whether a MySQL server of this version can be asked for the types."""
    return version >= _FIRST_WITH_JSON_TABLE


def special_value(value: str) -> str:
    """Whether a JSON value is of another type than the one that the server's reader would give its text."""
    return _SPECIAL.format(value=value)


def types_expression(table: TableName, column: str) -> str:
    """What to select for the types of a JSON column: `NOTHING` where the document's text says everything."""
    document = f"{table.sql}.{Ident(column).sql}"
    special = special_value("v")
    found, (members, elements) = (
        [text.format(document=document, path=path, special=special) for path in _PATHS] for text in (_ANY, _LISTED)
    )
    whole = f"JSON_ARRAY(JSON_ARRAY(1, JSON_TYPE({document}), CAST({document} AS CHAR)))"
    return (
        f"CASE WHEN JSON_TYPE({document}) NOT IN ('OBJECT', 'ARRAY') THEN"
        f" IF({special_value(document)}, JSON_OBJECT('whole', {whole}), JSON_OBJECT())"
        f" WHEN {' OR '.join(found)} THEN JSON_OBJECT('members', {members}, 'elements', {elements})"
        " ELSE JSON_OBJECT() END"
    )
