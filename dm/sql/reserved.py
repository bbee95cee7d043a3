"""Words that are names at one server and reserved at another one, so that a statement must quote them.

`rank` is a name in MariaDB and in MySQL 5.7, and reserved in MySQL 8.0; `offset` is a name in MySQL, and reserved in
MariaDB 10.6. What is quoted is a name everywhere, so a name is quoted wherever some server reserves it, whichever the
target is. It must be a name at the source: a word that the source may use as a keyword here is left as it is.

The words are those that MySQL 9.7 or MariaDB 10.11 refuse as a column's name, less those that all servers reserve that
may be a source. Few of them are keywords of a DDL statement on tables, and those only at places of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dm.flavor import Flavor
from dm.sql.token import Token

# Reserved by MySQL, some since 5.7 or 8.0, and never by MariaDB.
_BY_MYSQL: Final = frozenset(
    {
        "CUBE", "CUME_DIST", "DENSE_RANK", "EMPTY", "EXTERNAL", "FIRST_VALUE", "FUNCTION", "GENERATED", "GET",
        "GROUPING", "GROUPS", "IO_AFTER_GTIDS", "IO_BEFORE_GTIDS", "JSON_TABLE", "LAG", "LAST_VALUE", "LATERAL",
        "LEAD", "LIBRARY", "NTH_VALUE", "NTILE", "OF", "OPTIMIZER_COSTS", "PERCENT_RANK", "QUALIFY", "RANK", "ROW",
        "STORED", "SYSTEM", "TABLESAMPLE", "VIRTUAL", "WINDOW",
    }
)  # fmt: skip
# Reserved by both, by a version of MySQL or MariaDB that is not the oldest source.
_BY_BOTH: Final = frozenset({"EXCEPT", "INTERSECT", "OVER", "RECURSIVE", "ROWS", "ROW_NUMBER"})
# Reserved by MariaDB since a version that is not the oldest source.
_BY_MARIADB: Final = frozenset({"OFFSET", "PORTION", "RETURNING"})
_NAMES: Final[dict[Flavor, frozenset[str]]] = {
    # MySQL has always reserved the first three, and MariaDB the last nine.
    "mariadb": _BY_MYSQL | _BY_BOTH | _BY_MARIADB | {"DATABASE", "OPTION", "SCHEMA"},
    "mysql": _BY_MYSQL
    | _BY_BOTH
    | _BY_MARIADB
    | {
        "CURRENT_ROLE", "DELETE_DOMAIN_ID", "DO_DOMAIN_IDS", "IGNORE_DOMAIN_IDS", "MASTER_DEMOTE_TO_REPLICA",
        "MASTER_DEMOTE_TO_SLAVE", "MASTER_SSL_VERIFY_SERVER_CERT", "PAGE_CHECKSUM", "PARSE_VCOL_EXPR",
    },
}  # fmt: skip
_VERBS: Final = ("CREATE", "ALTER", "DROP", "REPLACE")


def names_reserved(flavor: Flavor) -> frozenset[str]:
    """The words that are quoted where a source of this flavour has them as names."""
    return _NAMES[flavor]


def names_elsewhere_reserved(tokens: Sequence[Token], flavor: Flavor) -> frozenset[int]:
    """The places of the words, in a DDL statement of a source, that are names and reserved at some server."""
    names = _NAMES[flavor]
    return frozenset(
        at for at, token in enumerate(tokens) if token.upper in names and token.kind == "word" and _is_name(tokens, at)
    )


def _is_name(tokens: Sequence[Token], at: int) -> bool:
    before = tokens[at - 1].upper if at else ""
    following = tokens[at + 1].upper if at + 1 < len(tokens) else ""
    word = tokens[at].upper
    if word in ("EMPTY", "OF"):  # JSON_VALUE (.. NULL ON EMPTY), MEMBER OF (..)
        return before not in ("ON", "MEMBER")
    if word == "RETURNING":  # JSON_VALUE (.., '$.a' RETURNING CHAR)
        return not at or tokens[at - 1].kind != "string"
    if word == "GENERATED":
        return following != "ALWAYS"
    if word in ("STORED", "VIRTUAL"):  # AS (..) STORED
        return before != ")"
    if word == "ROW":  # ROW (1, 2) of an expression
        return following != "(" or before in ("KEY", "INDEX", "UNIQUE", "FULLTEXT", "SPATIAL")
    if word in ("DATABASE", "SCHEMA"):  # CREATE DATABASE, and the function
        verb = before in _VERBS and all(token.upper in _VERBS or token.upper == "OR" for token in tokens[:at])
        return not verb and not (following == "(" and at + 2 < len(tokens) and tokens[at + 2].upper == ")")
    return True
