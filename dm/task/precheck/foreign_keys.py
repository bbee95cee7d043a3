"""Foreign keys that change rows by themselves: what the source does not log, the target must do in the same way.

MySQL from 9.6 on writes to its binlog what CASCADE and SET NULL do; older ones and MariaDB do not. Then the target's
own foreign keys have to act, which takes more than `foreign_key_checks: 1`: the same foreign keys there, parents that
are migrated too, and rows that start as the source's were at one moment. Where a dump's rows are of several moments,
the changes between them are applied twice, and a cascade can't be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from dm.downstream.target_schema import ACTING
from dm.ident import Ident, TableName
from dm.task.precheck.context import Answers, CheckResult, Context, Server, some


@dataclass(frozen=True, slots=True)
class _ForeignKey:
    name: str
    child: TableName
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str
    on_update: str

    @property
    def acts(self) -> bool:
        return bool(ACTING & {self.on_delete, self.on_update})

    def __str__(self) -> str:
        return f"{self.child} ({self.name})"

    def routed(self, context: Context) -> _Form:
        """What the target's foreign key must be like."""
        return _form(context.destination(self.child), context.destination(self.parent), self)


_Form = tuple[TableName, TableName, frozenset[tuple[str, str]], str, str]


def _form(child: TableName, parent: TableName, key: _ForeignKey) -> _Form:
    pairs = zip(key.columns, key.parent_columns, strict=True)
    return child, parent, frozenset((own.lower(), there.lower()) for own, there in pairs), key.on_delete, key.on_update


def acting_foreign_keys(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Foreign keys whose effects nobody would bring to the target, or bring there twice."""
    facts = context.source.facts
    if not context.syncs or facts.logs_cascades:
        return
    wanted = set(context.tables)
    keys = [key for key in _read(context.source, context.schemas) if key.acts and key.child in wanted]
    if not keys and not context.config.foreign_key_checks:
        return
    if not context.config.foreign_key_checks:
        yield answers.failure(
            f"foreign keys that change rows by themselves (CASCADE, SET NULL): {some(keys)}; {facts.base_flavor}"
            f" {facts.version_text} does not write these changes to its binlog",
            "have the target act in the same way: `session: {foreign_key_checks: 1}` under `target-database`",
        )
    orphans = [key for key in keys if key.parent not in wanted]
    if orphans:
        yield answers.failure(
            f"foreign keys change rows when rows of tables change that are not migrated: {some(orphans)}",
            f"add {some(dict.fromkeys(key.parent for key in orphans))} to `block-allow-list`",
        )
    if keys and context.dumps and not context.config.dump_of_one_moment:
        yield answers.failure(
            f"foreign keys that change rows by themselves ({some(keys)}) and a dump whose rows are of several moments:"
            " what they did while it ran can't be done again",
            'copy the rows of one moment: `mydumpers: {global: {extra-args: "--consistency flush"}}`, and'
            " `mydumper-config-name: global` under `mysql-instances`",
        )
    yield from _at_target(context, answers, [key for key in keys if key.parent in wanted])


def _at_target(context: Context, answers: Answers, keys: Sequence[_ForeignKey]) -> Iterator[CheckResult]:
    """The foreign keys of the tables that the target has already."""
    routed = {context.destination(table) for table in context.tables}
    schemas = tuple({table.schema for table in routed})
    there = {table for table in _tables(context.target, schemas) if table in routed}
    forms = {_form(key.child, key.parent, key): key for key in _read(context.target, schemas)}
    missing = [key for key in keys if context.destination(key.child) in there and key.routed(context) not in forms]
    if missing:
        yield answers.failure(
            f"the target's tables lack foreign keys that change rows by themselves: {some(missing)}",
            "; ".join(dict.fromkeys(_added(key, context) for key in missing)),
        )
    wanted = {key.routed(context) for key in keys}
    extra = [key for form, key in forms.items() if key.acts and key.child in there and form not in wanted]
    if extra:
        yield answers.failure(
            f"foreign keys of the target change rows by themselves that the source's do not: {some(extra)}",
            "; ".join(f"ALTER TABLE {key.child.sql} DROP FOREIGN KEY {Ident(key.name).sql}" for key in extra),
        )


def _added(key: _ForeignKey, context: Context) -> str:
    child, parent = context.destination(key.child), context.destination(key.parent)
    return (
        f"ALTER TABLE {child.sql} ADD FOREIGN KEY ({_list(key.columns)}) REFERENCES {parent.sql}"
        f" ({_list(key.parent_columns)}) ON DELETE {key.on_delete} ON UPDATE {key.on_update}"
    )


def _list(columns: Iterable[str]) -> str:
    return ", ".join(Ident(column).sql for column in columns)


def _tables(server: Server, schemas: Sequence[str]) -> list[TableName]:
    query = "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE'"
    return [TableName(str(schema), str(table)) for schema, table in server.of_schemas(query, "table_schema", schemas)]


def _read(server: Server, schemas: Sequence[str]) -> Iterator[_ForeignKey]:
    rules = server.of_schemas(
        "SELECT constraint_schema, table_name, constraint_name, delete_rule, update_rule"
        " FROM information_schema.referential_constraints WHERE 1 = 1",
        "constraint_schema",
        schemas,
    )
    columns: dict[tuple[str, str, str], list[tuple[str, str, str, str]]] = {}
    for schema, table, name, *rest in server.of_schemas(
        "SELECT table_schema, table_name, constraint_name, column_name, referenced_table_schema,"
        " referenced_table_name, referenced_column_name FROM information_schema.key_column_usage"
        " WHERE referenced_table_name IS NOT NULL",
        "table_schema",
        schemas,
        " ORDER BY table_schema, table_name, constraint_name, ordinal_position",
    ):
        own, parent_schema, parent, there = (str(each) for each in rest)
        columns.setdefault((str(schema), str(table), str(name)), []).append((own, parent_schema, parent, there))
    for schema, table, name, on_delete, on_update in rules:
        parts = columns.get((str(schema), str(table), str(name)))
        if parts:
            yield _ForeignKey(
                str(name),
                TableName(str(schema), str(table)),
                tuple(part[0] for part in parts),
                TableName(parts[0][1], parts[0][2]),
                tuple(part[3] for part in parts),
                _rule(on_delete),
                _rule(on_update),
            )


def _rule(text: object) -> str:
    return "RESTRICT" if str(text) == "NO ACTION" else str(text)
