"""VECTOR stands for any type: its file is all that is known of it."""

from __future__ import annotations

import copy
import pickle

import pytest

from dm.changes.column_map import keeps_values
from dm.errors import DMError
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.wire_type import WireCode, resolve
from dm.mysql.equality.structure import ColumnFacts
from dm.mysql.equality.values import Side, parts
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.schema.show import create_table
from dm.mysql.schema.table import TableSchema, schema_from_json, schema_to_json
from dm.mysql.sql.context import SourceContext
from dm.mysql.types import registry, vector
from dm.mysql.types.registry import TypeRegistry, family_modules

_CONTEXT = SourceContext("mysql", 90700, "d")
_SQL = "CREATE TABLE t (id INT PRIMARY KEY, v VECTOR(3) NOT NULL)"


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """`dm` as it were without the file."""
    others = [module for module in family_modules() if module is not vector]
    monkeypatch.setattr(registry, "KNOWN", TypeRegistry.of(others))
    return monkeypatch


def table() -> TableSchema:
    return parse_create_table(_SQL, _CONTEXT)


def test_without_its_file_the_type_is_unknown(without: pytest.MonkeyPatch) -> None:
    with pytest.raises(DMError) as caught:
        table()
    assert caught.value.name == "column-type-unknown"
    assert "column v of table d.t is of type vector" in caught.value.message
    assert "block-allow-list" in caught.value.workaround
    without.undo()
    assert [column.base for column in table().columns] == ["int", "vector"]


def test_a_structure_that_was_stored_with_it_is_refused(without: pytest.MonkeyPatch) -> None:
    without.undo()
    stored = schema_to_json(table())
    others = [module for module in family_modules() if module is not vector]
    without.setattr(registry, "KNOWN", TypeRegistry.of(others))
    with pytest.raises(DMError) as caught:
        schema_from_json(stored)
    assert caught.value.name == "column-type-unknown"


def test_with_its_file_every_part_has_its_answer() -> None:
    schema = table()
    column = schema.columns[1]
    assert parse_create_table(create_table(schema), _CONTEXT) == schema
    assert schema_from_json(schema_to_json(schema)) == schema
    assert column.encoder()(bytes(4)) == b"0x00000000"
    compare = column.type.exact(b"`v`", column.encoder(), column, _CONTEXT.dialect, False)
    assert compare(b"\x01\x02") == b"HEX(`v`)=HEX(0x0102)"
    assert column.type.hashed(column) is None
    assert keeps_values(column, column)
    assert not keeps_values(column, schema.columns[0])
    facts = ColumnFacts("v", "vector(3)", True, None, None, None, "", "", "")
    ((part,),) = parts([Side(facts, schema.name, "mysql")])
    assert (part.text, part.form) == ("CAST(`v` AS BINARY)", "hashed")


def test_a_descriptor_stays_itself_where_it_is_pickled_for_another_process() -> None:
    column = table().columns[1]
    assert pickle.loads(pickle.dumps(column)).type is column.type is copy.deepcopy(column).type


@pytest.mark.parametrize(
    ("code", "metadata"), [(WireCode.VECTOR, b"\x04"), (WireCode.VARCHAR, b"\x0c\x00"), (WireCode.BLOB, b"\x04")]
)
def test_its_row_events_of_all_servers_are_read(code: WireCode, metadata: bytes) -> None:
    column = table().columns[1]
    assert column.wire.mismatch(resolve(code, ByteCursor(metadata)), column) is None
    assert code in column.wire.codes
