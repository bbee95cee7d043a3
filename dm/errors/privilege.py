"""A server's refusal of a statement for want of a privilege: which one, as far as the server says it.

It is no matter of user and password, since the login worked. The server's words are translated by its `lc_messages`;
where they are not English, they are handed on as the cause and the privilege stays unnamed.

The way out is a GRANT that can be copied. The server names its own privileges, so those are right for its flavour and
version. What it leaves out is taken from the statement: MySQL names a table without its schema, and neither server says
which privilege of a schema is lacking.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from dm.errors.error import DMError
from dm.errors.grant import TARGET_PRIVILEGES, Grantee, grant, nobody

# MySQL "Server Error Message Reference"; MariaDB "Error Codes". All of them come after the login: no session of ours
# names a schema when it logs in (1044 would be possible there).
PRIVILEGE_ERRORS: Final = frozenset({1044, 1142, 1143, 1227, 1370})

# 1227: "Access denied; you need (at least one of) the SUPER, REPLICATION CLIENT privilege(s) for this operation".
_SPECIFIC: Final = re.compile(r"\(at least one of\) the (?P<names>[A-Z_, ]+(?: or [A-Z_ ]+)*) privilege")
# 1142, 1143: "SELECT command denied to user 'a'@'b' for table 't'"; MariaDB writes `s`.`t`.
_COMMAND: Final = re.compile(
    r"^(?P<names>[A-Z, ]+|SELECT with locking clause) command denied to user .* (?:for|in) table (?P<table>.+)$",
    re.DOTALL,
)
# 1044: "Access denied for user 'a'@'b' to database 's'".
_SCHEMA: Final = re.compile(r" to database '(?P<schema>.*)'$", re.DOTALL)
# 1370: "execute command denied to user 'a'@'b' for routine 's.f'".
_ROUTINE: Final = re.compile(
    r"^(?P<names>[a-z ]+) command denied to user .* for routine '(?P<schema>[^.]*)\.", re.DOTALL
)

_VERB: Final = re.compile(r"(?:\s|/\*.*?\*/)*(\w+)", re.DOTALL)
_OF_SCHEMAS: Final = {"LOCK": ("SELECT", "LOCK TABLES"), "CREATE": ("CREATE",), "DROP": ("DROP",), "ALTER": ("ALTER",)}
# A table that is created, or that a foreign key names, or that is looked for at the target, need not be there, and
# nothing can be granted on it then.
_OF_ABSENT_TABLES: Final = frozenset({"CREATE", "REFERENCES", "SHOW"})
_LOCKING: Final = "SELECT with locking clause"  # MySQL: SELECT, and one privilege to change what is locked
_CREATED: Final = re.compile(
    r"\s*(?:CREATE|ALTER)\s+TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(`(?:[^`]|``)+`|[\w$]+)\s*\.", re.I
)
_TEMPORARY: Final = re.compile(r"\s*CREATE\s+TEMPORARY\s", re.IGNORECASE)
_NEVER_OF_A_TABLE: Final = frozenset({"LOCK TABLES", "CREATE TEMPORARY TABLES", "EVENT", "EXECUTE"})
_SEARCHED: Final = 1 << 16  # of a statement, which may be megabytes


def privilege_missing(
    words: str,
    *,
    role: str,
    address: str,
    user: str,
    cause: str,
    statement: str = "",
    who: Callable[[], Grantee] = nobody,
) -> DMError:
    """The error for one of PRIVILEGE_ERRORS; `words` are the server's message, `who` asks it whom it was refused to."""
    grantee = who()
    said, needed, places = _lacking(words, statement[:_SEARCHED], role, grantee.schema)
    named = f"the privilege {said}" if said else "a privilege"
    on = f" on {', '.join(places)}" if places and places != ["*.*"] else ""
    grants = "; ".join(grant(needed or [".."], place, grantee.account) for place in places or [".."])
    return DMError(
        "privilege-missing", role=role, address=address, user=user, lacks=f"{named}{on}", grant=grants, cause=cause
    )


def _lacking(words: str, statement: str, role: str, schema: str) -> tuple[str, Sequence[str], list[str]]:
    """What the server says is lacking, what is to be granted, and on what."""
    if match := _SPECIFIC.search(words):
        return match["names"], [_one_of(match["names"])], ["*.*"]
    if match := _COMMAND.search(words):
        # Any privilege of a table lets its definition be shown; the one that is needed anyway is SELECT.
        said = match["names"]
        names = {"SHOW": "SELECT", "ANY": "SELECT", _LOCKING: "SELECT, UPDATE"}.get(said, said)
        needed, places = names.split(", "), _tables(match["table"], statement, schema)
        if role == "target" and _OF_ABSENT_TABLES & set(said.split(", ")) and all(".`" in place for place in places):
            return names, list(TARGET_PRIVILEGES), [_whole(place) for place in places]
        if _NEVER_OF_A_TABLE & set(needed):
            places = [_whole(place) for place in places if ".`" in place]
        return names, needed, places
    if match := _SCHEMA.search(words):
        verb = _VERB.match(statement)
        usual = _OF_SCHEMAS.get(verb[1].upper() if verb else "", ("SELECT",))
        # All that a task needs there: less of it by a narrower pattern than the account's own takes the rest away.
        wanted = TARGET_PRIVILEGES if role == "target" and "LOCK TABLES" not in usual else usual
        if _TEMPORARY.match(statement):
            wanted = (*wanted, "CREATE TEMPORARY TABLES")
        return "", wanted, [f"{_pattern(match['schema'])}.*"]
    if match := _ROUTINE.search(words):
        return match["names"].upper(), [match["names"].upper()], [f"{_quoted(match['schema'])}.*"]
    return "", [], []


def _one_of(names: str) -> str:
    """The one to grant, where the server names several that would do: the least, so not SUPER."""
    listed = re.split(r", | or ", names)
    return next((name for name in listed if name not in ("SUPER", "SYSTEM_VARIABLES_ADMIN")), listed[0])


def _tables(said: str, statement: str, schema: str) -> list[str]:
    """The table that the server says, in SQL; several where the statement has it in several schemas."""
    if not (len(said) > 1 and said.startswith("'") and said.endswith("'")):
        return [said]  # MariaDB's, which is whole
    table = said[1:-1]
    # Of a table that a foreign key names MySQL says the schema, too, with a dot between them.
    qualified = re.search(r"(?:\b|`)REFERENCES\s", statement, re.IGNORECASE) and table.partition(".")
    if qualified and qualified[2] and f"{_quoted(table)}" not in statement:
        return [f"{_quoted(qualified[0])}.{_quoted(qualified[2])}"]
    # Names with a `$` or of other letters need no quotes; \w has the letters.
    spelled = rf"(?:{re.escape(_quoted(table))}|{re.escape(table)}(?![\w$]))"
    found = re.finditer(rf"(?:`((?:[^`]|``)+)`|([\w$]+))\s*\.\s*{spelled}", statement, re.IGNORECASE)
    schemas = dict.fromkeys(match[2] or match[1].replace("``", "`") for match in found)
    if not schemas and (created := _CREATED.match(statement)):
        schemas = {created[1].strip("`").replace("``", "`"): None}  # where it looks for what has no schema
    if not schemas and schema:
        schemas = {schema: None}
    return [f"{_quoted(name)}.{_quoted(table)}" for name in schemas] or [_quoted(table)]


def _whole(place: str) -> str:
    """The schema of a table."""
    return f"{_pattern(place.rpartition('.`')[0].strip('`').replace('``', '`'))}.*"


def _pattern(schema: str) -> str:
    """The schema alone: a name without wildcards decides whatever other patterns the account has."""
    return _quoted(re.sub(r"([_%])", r"\\\1", schema))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
