"""Documents, and the types inside them, that a server cuts are no answer: not on one side, and not on both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest

from dm.demo.servers import ThrowawayServer
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.equality.values import Side, parts, row_text, same_text, text_of
from tests.live.equality.test_values import Table
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

PACKET = 1024
DECIMALS = f"JSON_ARRAY({', '.join(['1.5'] * 60)})"  # less text than the server allows, and a longer list of types
LONG = "CONCAT('[', REPEAT('true,', 190), '1]')"  # with the spaces that the server puts in, more than it allows


@pytest.fixture
def server(park: ServerPark) -> Iterator[ThrowawayServer]:
    """A MySQL whose new sessions make short texts."""
    server = park.shared("mysql", "upstream-1")
    ((limit,),) = server.query("SELECT @@GLOBAL.max_allowed_packet")
    server.execute(f"SET GLOBAL max_allowed_packet = {PACKET}")
    yield server
    server.execute(f"SET GLOBAL max_allowed_packet = {limit}")


@pytest.mark.parametrize("document", [DECIMALS, LONG], ids=["types", "text"])
def test_what_is_cut_is_no_answer(server: ThrowawayServer, schema: SchemaFactory, document: str) -> None:
    name = TableName(schema(server), "t")
    with closing(Table(server, name, "JSON", ["'[1]'", document])) as table:
        sides = [table.side, Side(table.side.column, name, "mysql", f"{name.sql}.`v`")]
        ours, theirs = parts(sides, json_types=True)
        whole, cut, none = table.texts(ours)
        assert (whole is None, cut is None, none is None) == (False, True, False)
        values, cut_values, nulls = table.read(ours)
        assert [text_of(ours, values), text_of(ours, nulls)] == [whole, none]
        with pytest.raises(DMError) as caught:
            text_of(ours, cut_values)
        assert caught.value.name == "diff-value-cut"
        equal = " AND ".join(f"({same_text(one, other)})" for one, other in zip(ours, theirs, strict=True))
        with server.connect() as session, session.cursor() as cursor:
            cursor.execute(f"SELECT {equal} FROM {name.sql} ORDER BY id")
            assert cursor.fetchall() == ((1,), (0,), (1,))
    assert row_text(ours) is not None
