"""A schema's character set and collation are those that information_schema has, whatever it is called."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest

from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import schema_defaults
from dm.ident import Ident
from dm.mysql.schema.charset import Collated
from tests.live.changes.tables import endpoint_of

pytestmark = pytest.mark.live

ODD = "o`d /*!40100 DEFAULT CHARACTER SET latin1 */ "


@pytest.fixture
def name(target: ThrowawayServer) -> Iterator[str]:
    found = f"{ODD}{secrets.token_hex(4)}"
    yield found
    target.execute(f"DROP DATABASE IF EXISTS {Ident(found).sql}")


def test_every_character_set_with_its_own_collation_and_another_one(target: ThrowawayServer, name: str) -> None:
    sql = Ident(name).sql
    collations: dict[str, list[str]] = {}
    for charset, collation in target.query(
        "SELECT character_set_name, collation_name FROM information_schema.collations"
        " WHERE character_set_name IS NOT NULL AND is_compiled = 'Yes' ORDER BY is_default DESC, collation_name"
    ):
        collations.setdefault(str(charset), []).append(str(collation))
    assert len(collations) > 30
    with TargetConnection(endpoint_of(target)) as connection:
        assert schema_defaults(connection, name) is None
        target.execute(f"CREATE DATABASE {sql}")
        for charset, names in collations.items():
            for chosen in dict.fromkeys((names[0], names[-1])):
                target.execute(f"ALTER DATABASE {sql} CHARACTER SET {charset} COLLATE {chosen}")
                assert schema_defaults(connection, name) == Collated(charset, chosen)
