"""What the target can't make of the source's tables: told once for all of them, before anything is copied.

A server knows best what it takes. Every structure that the load would create is tried there, in a schema of its own
(`dm.downstream.target_schema`), by the statement that the load would run; tables that differ in their names only are
tried once. Collations are looked at first, since a table names several and a server complains of one; and so that one
missing collation or an engine without transactions does not hide what else a table has, the trial puts others in their
place.

What a TiDB leaves out of a structure, though it takes the statement: rows do not miss it, queries and checks may.

CHECK constraints (unless `tidb_enable_check_constraint` is on) and forms of partitioning that it does not have are
understood and passed over, with a warning that no load reads; so are full-text indexes by some versions. That a column
is hidden is nothing that it understands, and dm leaves it out (`dm.mysql.schema.visibility`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from dm.downstream.connection import TargetConnection
from dm.downstream.target_schema import scratch_beginning, scratch_pattern, scratch_schema
from dm.errors import REFUSED_STATEMENT, DMError, grant
from dm.ident import Ident, TableName
from dm.loader.target_tables import KEY_DEMANDED, Route, TargetTables
from dm.mysql.schema.parse import engine_name, parse_create_table
from dm.mysql.schema.show import normal_structure
from dm.mysql.schema.table import TableSchema
from dm.mysql.schema.translation import ENGINES_BY_DEFAULT, Translation, named_collations, nearest
from dm.mysql.sql.piece import Piece
from dm.sourcelog.upstream.facts import collation_names
from dm.task.precheck.context import Answers, CheckResult, Context, some

_ALL = 200  # names in a finding that is to name them all
_TRANSACTIONAL = frozenset({"innodb", "rocksdb", "tokudb", "ndbcluster", "ndb"})
_NAME = re.compile(r"[a-z0-9]+(_[a-z0-9]+)+")
_UNKNOWN_COLLATION = (1273, 1115)
_WITH_OWN_WAY_OUT = ("load-timestamp-implicit", "privilege-missing")


def untakeable_tables(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Everything by which the target's tables would not be, or not quite be, what the source's are."""
    if not context.to_be_made:
        return
    tables, failures = _parsed(context, answers)
    yield from failures
    collations = _Collations(context, tables)
    yield from collations.missing_ones(answers)
    yield from collations.other_ones(answers)
    yield from _engines(context, answers, tables)
    yield from _refused(context, answers, tables, collations)


def untransactional(engine: str | None) -> bool:
    """Whether tables of an engine can't roll back; one that is not named is the server's default."""
    return (engine or "InnoDB").lower() not in _TRANSACTIONAL


@dataclass(frozen=True, slots=True)
class _ParsedTable:
    structure: str
    schema: TableSchema
    piece: Piece


def _parsed(context: Context, answers: Answers) -> tuple[dict[TableName, _ParsedTable], list[CheckResult]]:
    """The tables that the load creates, and findings for what is not understood."""
    tables: dict[TableName, _ParsedTable] = {}
    failures: dict[str, list[TableName]] = {}
    for name in context.to_be_made:
        structure = context.structures.get(name)
        if structure is None:
            continue
        source = context.source_context(name)
        try:
            tables[name] = _ParsedTable(structure, parse_create_table(structure, source), Piece.of(structure, source))
        except DMError as error:
            failures.setdefault(str(error.details.get("why", error.message)), []).append(name)
    return tables, [
        answers.failure(
            f"structures that are not understood: {some(names, _ALL)} ({why})",
            "leave them out by `block-allow-list`, or change them at the source",
        )
        for why, names in failures.items()
    ]


@dataclass
class _Collations:
    """The collations of the tables, and what becomes of them at the target."""

    context: Context
    tables: Mapping[TableName, _ParsedTable]

    @cached_property
    def known(self) -> frozenset[str]:
        """The target's."""
        return frozenset(collation_names(self.context.target.connection, self.context.target.facts).values())

    @cached_property
    def missing(self) -> dict[str, list[TableName]]:
        """Collations that the target would be asked for and does not have, with the tables that name them."""
        found: dict[str, list[TableName]] = {}
        for name, table in self.tables.items():
            translated = self.context.rules.translation.piece(table.piece, self.context.target_context)
            for collation in dict.fromkeys(token.text.lower() for token in named_collations(translated)):
                if collation not in self.known:
                    found.setdefault(collation, []).append(name)
        # Newer servers of MariaDB understand names that they do not list.
        return {collation: names for collation, names in found.items() if not self._understood(collation)}

    def _understood(self, collation: str) -> bool:
        if _NAME.fullmatch(collation) is None:
            return False
        try:
            charset = collation.partition("_")[0]
            self.context.target.query(f"SELECT CONVERT('' USING {charset}) COLLATE {collation}")
        except DMError as error:
            if error.server_errno not in _UNKNOWN_COLLATION:
                raise
            return False
        return True

    @cached_property
    def proposed(self) -> dict[str, str]:
        """For each missing one another one that the target has, where there is one like it."""
        pairs = {collation: nearest(collation, self.known) for collation in sorted(self.missing)}
        return {collation: other for collation, other in pairs.items() if other is not None}

    def missing_ones(self, answers: Answers) -> Iterator[CheckResult]:
        """One failure for all tables, with the lines to add."""
        if not self.missing:
            return
        listed = "; ".join(f"{collation} of {some(names, _ALL)}" for collation, names in sorted(self.missing.items()))
        others = sorted(self.missing.keys() - self.proposed.keys())
        advice = (
            [_yaml("collation-map", {**self.context.config.collation_map, **self.proposed})] if self.proposed else []
        )
        if others:
            advice.append(f"nothing of the target's is like {', '.join(others)}: name a collation for each there")
        yield answers.failure(f"the target does not have the collations {listed}", "; ".join(advice))

    def other_ones(self, answers: Answers) -> Iterator[CheckResult]:
        """A warning of collations that become others, which changes the order of texts and which of them are equal."""
        pairs: dict[tuple[str, str], list[TableName]] = {}
        keys: list[str] = []
        for name, table in self.tables.items():
            changed = {
                column.name.lower(): (column.collation, other)
                for column in table.schema.columns
                if column.collation is not None and (other := self._translated(name, column.collation))
            }
            for pair in dict.fromkeys(changed.values()):
                pairs.setdefault(pair, []).append(name)
            keys += [
                f"{name} ({index.name})"
                for index in table.schema.unique_indexes
                if any(column.lower() in changed for column in index.columns)
            ]
        if not pairs:
            return
        listed = "; ".join(f"{old} becomes {new} in {some(names, _ALL)}" for (old, new), names in pairs.items())
        collide = f"; rows may be equal there in unique keys over such columns: {some(keys, _ALL)}" if keys else ""
        yield answers.warning(
            f"collations are others at the target, so texts are ordered and compared otherwise: {listed}{collide};"
            " values stay the same",
            "nothing, if that is wanted; a load pauses where one row would replace another (34933, 34922). For other"
            f" collations: {_yaml('collation-map', dict(pairs.keys()))}",
        )

    def _translated(self, table: TableName, collation: str) -> str | None:
        """The other collation that the target gets; None where it is the same one."""
        context = self.context
        source = context.source_context(table)
        other = context.rules.translation.collation(collation, source, context.target_context)
        return None if other == collation else other


def _engines(context: Context, answers: Answers, tables: Mapping[TableName, _ParsedTable]) -> Iterator[CheckResult]:
    """Engines that can't roll back: which the target's tables would have, too, and which nobody has mapped."""
    if not context.target.facts.dialect.has_engines:
        return
    by_default = _engines_by_default(context, tables)
    if by_default:
        listed = some((f"{name} ({engine})" for name, engine in by_default.items()), _ALL)
        pairs = {engine: ENGINES_BY_DEFAULT[engine] for engine in sorted(by_default.values())}
        yield answers.warning(
            f"tables of the source have an engine that can't roll back, and InnoDB at the target: {listed}",
            f"nothing, if that is wanted; to name another one, or to say so: {_yaml('engine-map', pairs)}",
        )
    kept = _untransactional_engines(context, tables)
    if kept:
        listed = some((f"{name} ({engine})" for name, engine in kept.items()), _ALL)
        others = dict.fromkeys(sorted(kept.values()), "InnoDB")
        yield answers.failure(
            f"tables of the source have an engine that would be taken over and can't roll back: {listed}",
            _yaml("engine-map", {**context.config.engine_map, **others}),
        )


def _engines_by_default(context: Context, tables: Mapping[TableName, _ParsedTable]) -> dict[TableName, str]:
    said = {engine_name(name) for name in context.config.engine_map}
    by_default = {engine_name(name): name for name in ENGINES_BY_DEFAULT}
    engines = {name: engine_name(table.schema.engine or "") for name, table in tables.items()}
    return {name: by_default[engine] for name, engine in engines.items() if engine in by_default.keys() - said}


def _untransactional_engines(context: Context, tables: Mapping[TableName, _ParsedTable]) -> dict[TableName, str]:
    found: dict[TableName, str] = {}
    for name, table in tables.items():
        engine = context.rules.translation.engine(table.schema.engine)
        if engine is not None and untransactional(engine):
            found[name] = _SPELLED.get(engine.lower(), engine)
    return found


_SPELLED = {"myisam": "MyISAM", "memory": "MEMORY", "aria": "Aria", "csv": "CSV", "archive": "ARCHIVE"}


def _refused(
    context: Context, answers: Answers, tables: Mapping[TableName, _ParsedTable], collations: _Collations
) -> Iterator[CheckResult]:
    """What the target says to the structures."""
    config = context.config
    lacking = [
        name
        for name in PRIVILEGES
        if not context.target.grants.on_schema(name, f"{scratch_beginning(config.meta_schema)}0")
    ]
    if lacking:
        pattern = scratch_pattern(config.meta_schema)
        yield answers.warning(
            f"structures of {_count(tables)} were not tried at the target: that takes a schema"
            f" {scratch_beginning(config.meta_schema)}.., where {context.target.account} lacks {', '.join(lacking)}",
            grant(PRIVILEGES, f"{Ident(pattern).sql}.*", context.target.account),
        )
        return
    engines = dict.fromkeys(_untransactional_engines(context, tables).values(), "InnoDB")
    translation = Translation.of(
        {**config.collation_map, **collations.proposed},
        {**config.engine_map, **engines},
    )
    refusals: dict[tuple[str, str], list[TableName]] = {}
    unlike: dict[tuple[str, ...], list[TableName]] = {}
    with TargetConnection(config.target, foreign_key_checks=False) as connection:
        strict = config.collation_compatible == "strict"
        targets = TargetTables.at(connection, strict_collations=strict, translation=translation)
        with scratch_schema(connection, config.meta_schema) as schema:
            for names, found in _trials(context, targets, tables, TableName(schema, "t")):
                if not isinstance(found, DMError):
                    unlike.setdefault(found, []).extend(names)
                    continue
                error = found
                if not (
                    set(collations.missing) - set(collations.proposed) and error.server_errno in _UNKNOWN_COLLATION
                ):
                    refusals.setdefault((error.cause or error.message, _way_out(error)), []).extend(names)
    for (why, way_out), names in refusals.items():
        as_is = "as it is" if len(names) == 1 else "as they are"
        yield answers.failure(f"the target does not make {some(sorted(names), _ALL)} {as_is}: {why}", way_out)
    for parts, names in unlike.items():
        yield answers.warning(
            f"TiDB leaves out of {some(sorted(names), _ALL)}: {', '.join(parts)}",
            "nothing, if the target's queries do without: rows are the same",
        )


def _trials(
    context: Context, targets: TargetTables, tables: Mapping[TableName, _ParsedTable], place: TableName
) -> Iterator[tuple[list[TableName], DMError | tuple[str, ...]]]:
    """Structures that the target refuses, or of which it leaves parts out, each with the tables that have it."""
    alike: dict[str, list[TableName]] = {}
    for name, table in tables.items():
        statement = targets.statement(
            normal_structure(table.structure),
            context.source_context(name),
            _into(place, name),
        )
        alike.setdefault(statement, []).append(name)
    for statement, names in alike.items():
        source = tables[names[0]].schema
        try:
            parts = tuple(left_out(source, targets.try_out(statement, source, place)))
            if parts:
                yield names, parts
        except DMError as error:
            if error.name not in (*REFUSED_STATEMENT.values(), *_WITH_OWN_WAY_OUT):
                raise
            yield names, error


def _into(place: TableName, name: TableName) -> Route:
    """The table in this place, all others that its statement names beside it, whatever they are called."""

    def route(other: TableName) -> TableName:
        if other == name:
            return place
        return TableName(place.schema, f"{place.table}_" if other.table.lower() == place.table else other.table)

    return route


def _way_out(error: DMError) -> str:
    if error.name in _WITH_OWN_WAY_OUT:
        return error.workaround
    if error.server_errno in KEY_DEMANDED:
        return DMError("load-key-demanded", table="the table", source_table="").workaround
    return (
        "create them at the target by hand, with the same columns in words that it knows; change them at the source; or"
        " leave them out by `block-allow-list`"
    )


def _count(tables: Mapping[TableName, _ParsedTable]) -> str:
    return "1 table" if len(tables) == 1 else f"{len(tables)} tables"


def _yaml(key: str, pairs: Mapping[str, str]) -> str:
    inside = ", ".join(f"{name}: {other}" for name, other in pairs.items())
    return f"add to the task file: {key}: {{{inside}}}"


def left_out(source: TableSchema, made: TableSchema) -> Iterator[str]:
    """The parts of a source's structure that the table made of it does not have, in words."""
    there = {index.name.lower() for index in made.indexes}
    for index in source.indexes:
        if index.name.lower() not in there:
            kind = "" if index.kind in ("index", "unique") else f"{index.kind} "
            yield f"{kind}index {index.name}"
    if len(made.checks) < len(source.checks):
        yield "CHECK constraints"
    if len(made.foreign_keys) < len(source.foreign_keys):
        yield "foreign keys"
    if source.partitions and not made.partitions:
        yield "partitions"
    shown = {column.name.lower() for column in made.columns if not column.invisible}
    for column in source.columns:
        if column.invisible and column.name.lower() in shown:
            yield f"INVISIBLE of column {column.name}"


PRIVILEGES: Final = ("CREATE", "DROP", "REFERENCES")
