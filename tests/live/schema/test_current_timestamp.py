"""CURRENT_TIMESTAMP as a default, in every form and for every number of digits: the server says what it becomes."""

from __future__ import annotations

from itertools import combinations

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.split import split
from tests.live.schema.session import Session, session
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live

CALLS = ["CURRENT_TIMESTAMP", "LOCALTIME", "LOCALTIMESTAMP()", *(f"NOW({digits})" for digits in ("", "0", "3", "6"))]
EXPRESSIONS = ["(NOW())", "(NOW(3))", "((CURRENT_TIMESTAMP))", "(NOW(3) + INTERVAL 1 DAY)", "SYSDATE()", "0", "NULL"]
OTHER_TYPES = ("TIMESTAMP", "DATETIME", "DATETIME(3)", "VARCHAR(40)")


def _accepted(server: Session, schema: str, statement: str) -> bool:
    try:
        server.run(schema, statement)
    except pymysql.Error:
        return False
    return True


@pytest.mark.parametrize(
    "kind", ["TIMESTAMP(6)", *(pytest.param(kind, marks=pytest.mark.chaos) for kind in OTHER_TYPES)]
)
def test_a_column_is_tracked_as_the_server_prints_it(
    upstream: ThrowawayServer, schema: SchemaFactory, kind: str
) -> None:
    name = schema(upstream)
    clauses = [f"DEFAULT {value}" for value in CALLS + EXPRESSIONS] + [f"ON UPDATE {call}" for call in CALLS]
    found = []
    with session(upstream) as server:
        for clause in clauses:
            statement = f"CREATE TABLE t (a {kind} NULL {clause})"
            if _accepted(server, name, statement):
                printed = server.rows(f"SHOW CREATE TABLE {TableName(name, 't').sql}")[0][1]
                tracked = parse_create_table(statement, server.context(name))
                assert same_structure(tracked, server.structure(tracked.name)), (statement, printed)
                found.append((printed, tracked, clause))
                server.run(name, "DROP TABLE t")
    assert len(found) >= 3, found
    calls = [case for case in found if case[2].split()[-1] in CALLS]  # expressions are not told from each other
    for (printed, one, clause), (other_printed, other, other_clause) in combinations(calls, 2):
        assert same_structure(one, other) == (printed == other_printed), (kind, clause, other_clause)


def test_a_changed_default_is_tracked_as_the_server_prints_it(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    name = schema(upstream)
    with session(upstream) as server:
        tracker = SchemaTracker(server.flavor)
        accepted = 0
        create = "CREATE TABLE t (a TIMESTAMP(6) NULL, b DATETIME(3), c VARCHAR(40))"
        changes = [
            f"ALTER TABLE t ALTER COLUMN {column} SET DEFAULT {value}"
            for column in "abc"
            for value in [*CALLS, *EXPRESSIONS]
        ]
        changes += [f"ALTER TABLE t MODIFY COLUMN a TIMESTAMP({digits}) NULL DEFAULT NOW()" for digits in range(7)]
        for statement in (create, *changes):
            if _accepted(server, name, statement):
                accepted += 1
                for piece in split(statement, server.context(name)):
                    tracker.apply(piece)
                tracked = tracker.get(TableName(name, "t"))
                assert tracked is not None
                assert same_structure(tracked, server.structure(tracked.name)), (statement, tracked)
    assert accepted > 5
