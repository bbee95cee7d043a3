"""What the lists want and the source may be hiding from the account.

Problem: a server lists a table only to an account with some privilege on it; the others are to it as if they did not
exist, and a dump would end without them and say nothing. What is hidden can't be named. So what the lists want whole
the account has to be able to read whole, and of schemas that they want by a pattern it has to see all names.

A name in the lists is taken as it is spelled, also where they do not tell upper from lower case.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dm.config.pattern import is_name, matcher
from dm.config.rules import BlockAllowList
from dm.config.subtask import SubtaskConfig
from dm.dumper.dump_run import DumpRun
from dm.errors import DMError, account_sql, grant
from dm.ident import Ident, TableName
from dm.rules import TableRules
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, fetch
from dm.sourcelog.upstream.facts import list_tables
from dm.sourcelog.upstream.privilege import Grants, read_grants


@dataclass(frozen=True, slots=True)
class Hidden:
    """Something that the account can't see, or can't be known to see."""

    what: str
    privilege: str  # with which it would
    on: str  # in SQL

    def grant(self, account: str) -> str:
        """The statement that shows it."""
        return grant((self.privilege,), self.on, account)


@reads_answers
def hidden(subtask: SubtaskConfig, rules: TableRules, connection: Connection, grants: Grants) -> list[Hidden]:
    """What the source may be hiding of what the subtask's lists want."""
    lists = subtask.block_allow_list or BlockAllowList()
    case = subtask.case_sensitive
    seen = [_text(name) for (name,) in fetch(connection, "SELECT schema_name FROM information_schema.schemata")]
    named = filter(is_name, dict.fromkeys((*lists.do_dbs, *(table.db_name for table in lists.do_tables))))
    unseen = [name for name in named if not any(map(matcher(name, case_sensitive=case), seen))]
    found: list[Hidden] = []
    for schema in dict.fromkeys((*seen, *grants.restricted, *unseen)):
        if rules.wanted(TableName(schema, "")) and not grants.on_schema("SELECT", schema):
            found += _of_schema(schema, lists, grants, connection, case_sensitive=case)
    if not _all_names_known(lists, grants):
        found.append(Hidden("schemas that it has no privilege on", "SHOW DATABASES", "*.*"))
    return found


@reads_answers
def demand_all_seen(run: DumpRun) -> None:
    """Raise DMError where the source may be hiding something that the lists want."""
    found = hidden(run.subtask, run.rules, run.connection, read_grants(run.connection, run.facts))
    if found:
        account = account_sql(_text(fetch(run.connection, "SELECT CURRENT_USER()")[0][0]))
        raise DMError(
            "dump-tables-hidden",
            user=run.endpoint.user,
            what="; ".join(dict.fromkeys(one.what for one in found)),
            grant="; ".join(one.grant(account) for one in found),
        )


def _of_schema(
    schema: str, lists: BlockAllowList, grants: Grants, connection: Connection, *, case_sensitive: bool
) -> Iterator[Hidden]:
    """Of a schema that the account may not read as a whole."""
    wanted = [
        table.tbl_name for table in lists.do_tables if matcher(table.db_name, case_sensitive=case_sensitive)(schema)
    ]
    if not lists.do_tables or not all(map(is_name, wanted)):
        for pattern in grants.patterns(schema):
            yield Hidden(f"tables of {schema} that it has no privilege on", "SELECT", f"{Ident(pattern).sql}.*")
        return
    there = [table.table for table in list_tables(connection) if table.schema == schema]
    for name in dict.fromkeys(wanted):
        table = TableName(schema, name)
        if not any(map(matcher(name, case_sensitive=case_sensitive), there)) and not grants.on_table("SELECT", table):
            yield Hidden(f"{table}, if it exists", "SELECT", table.sql)


def _all_names_known(lists: BlockAllowList, grants: Grants) -> bool:
    """Whether no schema that the lists want can be one whose name the account does not see."""
    if grants.globally("SELECT") or grants.globally("SHOW DATABASES"):
        return True
    return any(
        places and all(is_name(place) or _is_given(place, grants) for place in places)
        for places in (lists.do_dbs, [table.db_name for table in lists.do_tables])
    )


def _is_given(pattern: str, grants: Grants) -> bool:
    """Whether all that the list's pattern stands for is what a pattern of a GRANT stands for."""
    beginning = pattern.removesuffix("*")
    return beginning != pattern and is_name(beginning) and grants.on_schemas_from("SELECT", beginning)


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
