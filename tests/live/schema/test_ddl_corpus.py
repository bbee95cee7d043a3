"""Every statement of the corpus, on both servers: the server itself says what the structure is after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.demo.servers import ThrowawayServer
from dm.ident import TableName
from dm.mysql.schema.normal import same_structure
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.mysql.schema.tracker import SchemaTracker
from dm.mysql.sql.piece import Piece
from dm.mysql.sql.split import split
from tests.live.schema.corpus import COUNT, scripts
from tests.live.schema.session import Session, session
from tests.testbed.fixtures import SchemaFactory

pytestmark = pytest.mark.live


def in_schema(structure: TableSchema, schema: str) -> TableSchema:
    """A structure as if all it names were in this schema."""
    keys = (replace(key, parent=TableName(schema, key.parent.table)) for key in structure.foreign_keys)
    return replace(structure, name=TableName(schema, structure.name.table), foreign_keys=tuple(keys))


def _logged_text(upstream: Session, statement: str) -> str:
    """The statement as a replica sees it: CREATE TABLE .. SELECT is logged with columns."""
    return upstream.logged("CREATE TABLE") if " SELECT " in statement else statement


@pytest.mark.ci_flavor("mysql")
@pytest.mark.parametrize("number", range(COUNT))
def test_tracker_and_pieces_follow_the_server(upstream: ThrowawayServer, schema: SchemaFactory, number: int) -> None:
    source, target = schema(upstream), schema(upstream)
    with session(upstream) as server:
        tracker = SchemaTracker(server.flavor)
        server.run(target, "SET foreign_key_checks = 0")
        for statement in scripts(server.flavor)[number]:
            server.run(source, statement)
            pieces = split(_logged_text(server, statement), server.context(source))
            for piece in pieces:
                tracker.apply(piece)
                server.run(target, piece.routed(lambda name: TableName(target, name.table)))
            assert {name.table for name in tracker.tables()} == set(server.names(source)) == set(server.names(target))
            for name in {name.table for piece in pieces for name in piece.tables}.intersection(server.names(source)):
                _compare(server, tracker, TableName(source, name), TableName(target, name), statement)


def _compare(server: Session, tracker: SchemaTracker, source: TableName, target: TableName, statement: str) -> None:
    real = server.structure(source)
    tracked = tracker.get(source)
    assert tracked is not None
    assert same_structure(tracked, real), (statement, tracked, real)
    copy = in_schema(server.structure(target), source.schema)
    assert same_structure(copy, real), (statement, copy, real)
    assert schema_from_json(schema_to_json(tracked)) == tracked
    assert _hidden(tracked) == _hidden(copy) == _hidden(real), statement


def _hidden(schema: TableSchema) -> set[str]:
    return {index.name for index in schema.indexes if index.invisible}


def test_a_piece_is_stable(upstream: ThrowawayServer) -> None:
    """Cutting a piece again changes nothing, and routing to the same names keeps what it does."""
    with session(upstream) as server:
        context = server.context("d")
        for script in scripts(server.flavor):
            for statement in script:
                if " SELECT " in statement:
                    continue
                for piece in split(statement, context):
                    again = Piece.of(piece.text, context)
                    assert again.operations == piece.operations
                    routed = piece.route(lambda name: name)
                    assert [type(one) for one in routed.operations] == [type(one) for one in piece.operations]
                    assert routed.events == piece.events
