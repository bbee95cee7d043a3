"""Table structures as JSON, the form in which checkpoints and intents keep them."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, Final

from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.schema.table import Column, ForeignKey, Index, IndexPart, TableSchema
from dm.mysql.types import has_type

_VERSION: Final = 1


# By name, since `dataclasses.asdict` copies every value, and each DDL statement stores its structures three times.
_OF_COLUMN: Final = tuple(field.name for field in fields(Column))
_OF_PART: Final = tuple(field.name for field in fields(IndexPart))
_OF_FOREIGN_KEY: Final = tuple(field.name for field in fields(ForeignKey))


def _lean(item: Column | IndexPart, names: tuple[str, ...]) -> dict[str, Any]:
    values = ((name, getattr(item, name)) for name in names)
    return {name: value for name, value in values if value is not None and value is not False and value != ()}


def schema_to_json(schema: TableSchema) -> str:
    """A structure as JSON text; empty fields are left out."""
    return json.dumps(
        {
            "v": _VERSION,
            "name": list(schema.name),
            "columns": [_lean(column, _OF_COLUMN) | {"nullable": column.nullable} for column in schema.columns],
            "indexes": [
                {"name": index.name, "kind": index.kind, "parts": [_lean(part, _OF_PART) for part in index.parts]}
                | ({"hash": True} if index.hash else {})
                | ({"invisible": True} if index.invisible else {})
                for index in schema.indexes
            ],
            "foreign_keys": [{name: getattr(key, name) for name in _OF_FOREIGN_KEY} for key in schema.foreign_keys],
            "charset": schema.charset,
            "collation": schema.collation,
            "engine": schema.engine,
            "checks": list(schema.checks),
            "partitions": list(schema.partitions),
            "check_words": [list(words) for words in schema.check_words],
        }
        | ({"kept": list(schema.kept)} if schema.kept else {})
        | ({"placing": [list(each) for each in schema.placing]} if schema.placing else {}),
        separators=(",", ":"),
    )


def _column(item: dict[str, Any], table: TableName) -> Column:
    if not has_type(item["base"]):
        raise DMError("column-type-unknown", table=table, column=item["name"], type=item["base"])
    return Column(**{**item, "members": tuple(item.get("members", ()))})


def _part(item: dict[str, Any]) -> IndexPart:
    return IndexPart(**{"column": None, **item})


def _index(item: dict[str, Any]) -> Index:
    parts = tuple(_part(part) for part in item["parts"])
    return Index(item["name"], item["kind"], parts, item.get("hash", False), item.get("invisible", False))


def _foreign_key(item: dict[str, Any]) -> ForeignKey:
    return ForeignKey(
        item["name"],
        tuple(item["columns"]),
        TableName(*item["parent"]),
        tuple(item["parent_columns"]),
        item["on_delete"],
        item["on_update"],
    )


def schema_from_json(text: str) -> TableSchema:
    """The structure that `schema_to_json` wrote; raises DMError."""
    try:
        data = json.loads(text)
        if data["v"] != _VERSION:
            raise DMError("structure-not-understood", statement=text, why=f"it has version {data['v']}")
        name = TableName(*data["name"])
        return TableSchema(
            name,
            tuple(_column(item, name) for item in data["columns"]),
            tuple(_index(item) for item in data["indexes"]),
            tuple(_foreign_key(item) for item in data["foreign_keys"]),
            data["charset"],
            data["collation"],
            data["engine"],
            tuple(data["checks"]),
            tuple(data["partitions"]),
            tuple(tuple(words) for words in data.get("check_words", ())),
            tuple(data.get("kept", ())),
            tuple(tuple(each) for each in data.get("placing", ())),
        )
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise DMError("structure-not-understood", statement=text, why="its stored form is damaged") from error
