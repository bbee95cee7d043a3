"""Both sides of a task, and what differs.

Whether two objects are the same, their texts alone can't always tell: MySQL, MariaDB, TiDB and their versions print one
view in different words. So where texts differ, the target decides: the source's object is created there in a scratch
schema, and what the target prints of it is compared with what it prints of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from graphlib import CycleError, TopologicalSorter
from typing import Literal

from dm.config.subtask import SubtaskConfig
from dm.errors import DMError
from dm.ident import TableName
from dm.mysql.dialect import Dialect, Flavor
from dm.mysql.dialect.pair import same_server
from dm.mysql.schema.charset import utf8mb3_name
from dm.mysql.sql.context import SourceContext
from dm.rules.block_allow import SYSTEM_SCHEMAS
from dm.rules.table_rules import TableRules
from dm.sourcelog.upstream.facts import ServerFacts
from dm.text import counted
from dm.tools.objects.adapted import Adaptation, AdaptedObject, Definers, RoutedNames, moved
from dm.tools.objects.at_target import TargetSession, Trial, trials
from dm.tools.objects.reading import StoredObjectReader, reader_at
from dm.tools.objects.statement import ObjectStatement, context_of
from dm.tools.objects.stored import KINDS, ObjectName, StoredObject

State = Literal["equal", "different", "missing", "refused", "created", "only at the target"]


@dataclass(frozen=True, slots=True)
class ComparedObject:
    """One object of the sources, or of the target alone."""

    name: ObjectName  # at the target
    state: State
    sources: tuple[str, ...] = ()
    wanted: AdaptedObject | None = None
    there: StoredObject | None = None
    why: tuple[str, ...] = ()  # what differs, or why the target does not take it
    findings: tuple[str, ...] = ()
    tried: bool = False  # it is refused by a trial alone: another object may be lacking yet


@dataclass(frozen=True, slots=True)
class SideOfSource:
    """What one source has."""

    subtask: SubtaskConfig
    places: RoutedNames
    objects: tuple[AdaptedObject, ...]
    sequences: frozenset[TableName] = frozenset()  # as the target is to call them


def schemas_of(reader: StoredObjectReader, rules: TableRules) -> RoutedNames:
    """The schemas of a task at a source: those of its tables, and those without a table that the lists take."""
    names = [name for (name,) in reader.texts("SELECT schema_name FROM information_schema.schemata")]
    asked = [name for name in names if name.lower() not in SYSTEM_SCHEMAS and rules.wanted(TableName(name, ""))]
    there = reader.tables(asked)
    wanted = [table for table, is_table in there.items() if is_table and rules.wanted(table)]
    routed = {table: rules.route(table) for table in wanted if rules.scattered(table) is None}
    schemas = dict[str, str]()
    for name in asked:
        targets = {to.schema for table in wanted if table.schema == name for to in rules.destinations(table)}
        if targets or not any(is_table for table, is_table in there.items() if table.schema == name):
            schemas[name] = targets.pop() if len(targets) == 1 else rules.route(TableName(name, "")).schema
    return RoutedNames(schemas, routed, frozenset(table for table in there if table.schema in schemas))


class ObjectSurvey:
    """The objects of a task; the sessions are open as long as it is."""

    def __init__(self, subtasks: Sequence[SubtaskConfig], definers: Definers) -> None:
        self._subtasks, self._definers = subtasks, definers
        self._stack = ExitStack()
        endpoint = subtasks[0].target.model_copy(update={"session": {}})
        self.target = self._stack.enter_context(reader_at(endpoint, "target"))
        self._endpoint = endpoint
        self.session: TargetSession | None = None
        self._flavors = dict[str, Flavor]()
        self.remarks = list[str]()
        """What concerns whole schemas."""
        self.sides = list[SideOfSource]()
        """What each source has, known with `compared`."""

    def close(self) -> None:
        """End the sessions."""
        self._stack.close()

    @property
    def writing(self) -> TargetSession:
        """The session that creates objects, opened when it is needed."""
        if self.session is None:
            self.session = TargetSession(self._endpoint)
            self._stack.callback(self.session.close)
        return self.session

    def compared(self) -> list[ComparedObject]:
        """Everything on both sides; raises DMError."""
        self.sides = [self._of_source(subtask) for subtask in self._subtasks]
        there = self._at_target(sorted({target for side in self.sides for target in side.places.schemas.values()}))
        wanted = _merged(self.sides, self.key)
        self.remarks = [*self._of_schemas(wanted), *self._of_sequences()]
        found = self._judged(wanted, there)
        known = {self.key(each.name) for each in found}
        left = [stored for key, stored in there.items() if key not in known]
        return [*found, *(ComparedObject(each.name, "only at the target", there=each) for each in left)]

    def created(self, objects: Sequence[ComparedObject]) -> list[ComparedObject]:
        """What became of objects whose statement the target has taken."""
        there = self._at_target(sorted({each.name.schema for each in objects}))
        found = list[ComparedObject]()
        for each in objects:
            known = there.get(self.key(each.name))
            if known is None:
                why = ("the target took the statement and has no such object: an event whose time is over is dropped",)
                found.append(replace(each, state="refused", why=why))
            else:
                differing = tuple(_differing(_of(each), known))
                found.append(replace(each, state="created", there=known, findings=(*each.findings, *differing)))
        return found

    def key(self, name: ObjectName) -> ObjectName:
        """What two names of one object have in common at the target."""
        return _key(self.target.facts, name)

    def _of_source(self, subtask: SubtaskConfig) -> SideOfSource:
        rules = TableRules(subtask)
        with reader_at(subtask.source.endpoint, f"source {subtask.source_id}") as reader:
            self._flavors[subtask.source_id] = reader.facts.flavor
            places = schemas_of(reader, rules)
            listed = list(reader.listed(list(places.schemas)))
            names = frozenset(TableName(each.name.schema, each.name.name) for each in listed)
            adaptation = Adaptation(
                replace(places, known=places.known | names),
                self._definers,
                rules.translation,
                plain_context(reader.facts),
                plain_context(self.target.facts),
                frozenset(each.name for each in listed if each.name.kind == "view"),
            )
            objects = []
            for each in listed:
                if each.name.kind == "trigger" and TableName(each.name.schema, each.table) not in places.tables:
                    continue  # of a table that is not migrated
                stored = reader.read(each)
                if stored is not None:
                    adapted = adaptation.adapted(stored)
                    zone = self._zone(reader.facts, adapted)
                    objects.append(replace(adapted, findings=(*adapted.findings, *zone)))
            sequences = frozenset(
                TableName(places.schemas[each.schema], each.table) for each in reader.sequences(list(places.schemas))
            )
        return SideOfSource(subtask, places, tuple(objects), sequences)

    def _zone(self, source: ServerFacts, wanted: AdaptedObject) -> Iterator[str]:
        here = self.target.facts.system_time_zone
        if wanted.settings.time_zone == "SYSTEM" and source.system_time_zone != here:
            yield f"its times are of SYSTEM, which is {source.system_time_zone} at the source and {here} at the target"

    def _of_schemas(self, wanted: Iterable[ComparedObject]) -> Iterator[str]:
        collations = self.target.collations(sorted({each.name.schema for each in wanted}))
        known = dict[tuple[str, str], int]()
        for each in wanted:
            pair = (each.name.schema, _of(each).settings.database_collation)
            known[pair] = known.get(pair, 0) + 1
        for (schema, collation), number in known.items():
            if schema not in collations:
                yield f"the target has no schema {schema}"
            elif collation and collation != utf8mb3_name(collations[schema]):
                yield (
                    f"{counted(number, 'object')} of the target's schema {schema} had the schema's collation"
                    f" {collation}, which is {collations[schema]} there: parameters and variables without a character"
                    " set get that"
                )

    def _of_sequences(self) -> Iterator[str]:
        wanted = {name for side in self.sides for name in side.sequences}
        there = self.target.sequences(sorted({name.schema for name in wanted}))
        for name in sorted(wanted - there):
            yield (
                f"the target has no sequence {name}, and sequences are not brought: create it there as SHOW CREATE"
                " SEQUENCE has it, and set it (SETVAL) when the task rests; values given out later arrive like rows"
            )

    def _at_target(self, schemas: Sequence[str]) -> dict[ObjectName, StoredObject]:
        found = [self.target.read(each) for each in self.target.listed(schemas)]
        return {self.key(each.name): each for each in found if each is not None}

    def _judged(self, wanted: Sequence[ComparedObject], there: dict[ObjectName, StoredObject]) -> list[ComparedObject]:
        server = self.target.facts.dialect
        found, doubtful = dict[ObjectName, ComparedObject](), list[AdaptedObject]()
        for each in in_order(wanted):
            assert each.wanted is not None
            known = there.get(self.key(each.name))
            obstacle = each.why or obstacles(each.wanted, server)
            if obstacle:
                found[each.name] = replace(each, state="refused", there=known, why=tuple(obstacle))
                continue
            found[each.name] = replace(each, state="missing" if known is None else "equal", there=known)
            if self._strange(each) if known is None else not self._same_text(each.wanted, known):
                doubtful.append(each.wanted)
        tried = self.tried(doubtful)
        return [self._verdict(each, tried.get(each.name), _overtaken(each, found.values())) for each in found.values()]

    def tried(self, wanted: Sequence[AdaptedObject]) -> dict[ObjectName, Trial]:
        """What the target says to these objects; raises DMError."""
        return trials(self.writing, self.target, self._subtasks[0].meta_schema, wanted) if wanted else {}

    def _strange(self, each: ComparedObject) -> bool:
        """Whether the target may not take what the source has."""
        assert each.wanted is not None
        return not same_server(self._flavors[each.sources[0]], self.target.facts.flavor)

    def _same_text(self, wanted: AdaptedObject, there: StoredObject) -> bool:
        return self._meaning(wanted.as_stored, wanted.name.schema) == self._meaning(there, wanted.name.schema)

    def _meaning(self, stored: StoredObject, own_schema: str) -> object:
        if stored.statement is None:
            return None
        try:
            statement = ObjectStatement(stored, context_of(stored, plain_context(self.target.facts)))
            return statement.meaning(own_schema)
        except DMError:
            return stored.statement

    def _verdict(self, each: ComparedObject, trial: Trial | None, order: Sequence[str]) -> ComparedObject:
        if each.state == "refused" or each.wanted is None:
            return each
        if trial is not None and trial.refusal:
            return replace(each, state="refused", why=(trial.refusal,), tried=each.there is None)
        if each.there is None:
            return replace(each, state="refused", why=tuple(order)) if order else each
        made = trial.made if trial is not None else None
        same = trial is None or (
            made is not None
            and self._meaning(made, made.name.schema) == self._meaning(each.there, each.there.name.schema)
        )
        differing = ([] if same else ["text"]) + [*_differing(each.wanted, each.there), *order]
        return replace(each, state="different", why=tuple(differing)) if differing else each


def lacking(source: StoredObjectReader, target: StoredObjectReader, rules: TableRules) -> list[ObjectName]:
    """The objects of one source that the target lacks or hides, by their names there; nothing is read of them."""
    names = schemas_of(source, rules)
    wanted = [
        moved(each, names)
        for each in source.listed(list(names.schemas))
        if each.name.kind != "trigger" or TableName(each.name.schema, each.table) in names.tables
    ]
    there = {_key(target.facts, each.name) for each in target.listed(sorted({name.schema for name in wanted}))}
    return [name for name in wanted if _key(target.facts, name) not in there]


def _key(target: ServerFacts, name: ObjectName) -> ObjectName:
    """A name as the target tells it from others: those of routines and events are never told by case."""
    folds = target.lower_case_table_names != 0
    schema = name.schema.lower() if folds else name.schema
    by_case = name.kind in ("view", "trigger") and not folds
    return ObjectName(name.kind, schema, name.name if by_case else name.name.lower())


def plain_context(facts: ServerFacts) -> SourceContext:
    """How a server reads a text under its usual modes."""
    return SourceContext(facts.flavor, facts.version, "")


def in_order(wanted: Iterable[ComparedObject]) -> list[ComparedObject]:
    """Objects in the order in which they can be created: what a text needs comes before it."""
    usual = sorted(wanted, key=lambda each: (KINDS.index(each.name.kind), _of(each).source.place, each.name))
    at = {(source, _of(each).source.name): number for number, each in enumerate(usual) for source in each.sources}
    graph = {
        number: sorted(
            {at[source, name] for source in each.sources for name in _of(each).names if (source, name) in at}
        )
        for number, each in enumerate(usual)
    }
    try:
        order = list(TopologicalSorter(graph).static_order())
    except CycleError:  # an alias is called like a view: no order is known to be right
        order = list(graph)
    return [usual[number] for number in sorted(order, key=lambda number: KINDS.index(usual[number].name.kind))]


def _of(each: ComparedObject) -> AdaptedObject:
    assert each.wanted is not None
    return each.wanted


def _merged(sides: Iterable[SideOfSource], key: Callable[[ObjectName], ObjectName]) -> list[ComparedObject]:
    """One of each: several sources may have it, if they have the same."""
    found = dict[ObjectName, ComparedObject]()
    for side in sides:
        for wanted in side.objects:
            named = key(wanted.name)
            other = found.get(named)
            name = side.subtask.source_id
            sources = (name,) if other is None else (*other.sources, name)
            if other is None:
                found[named] = ComparedObject(wanted.name, "missing", sources, wanted, findings=wanted.findings)
            elif (_of(other).statement, _of(other).settings) == (wanted.statement, wanted.settings):
                found[named] = replace(other, sources=sources)
            else:
                why = f"{', '.join(dict.fromkeys(sources))} have different ones, and there can be one at the target"
                found[named] = replace(other, sources=sources, why=(why,))
    return list(found.values())


def _overtaken(each: ComparedObject, others: Iterable[ComparedObject]) -> list[str]:
    """The triggers that a trigger fires before at the source, and fires or would fire after at the target."""
    own = _of(each)
    if not own.source.moment:
        return []
    return [
        f"it fires before {other.name.name} at the source, which fires first at the target"
        for other in others
        if other.there is not None
        and (other.name.schema, _of(other).table, _of(other).source.moment)
        == (each.name.schema, own.table, own.source.moment)
        and _of(other).source.place > own.source.place
        and (each.there is None or other.there.place < each.there.place)
    ]


def obstacles(wanted: AdaptedObject, server: Dialect) -> tuple[str, ...]:
    """Why an object can't be at a server at all."""
    has = {"view": True, "trigger": server.has_triggers, "event": server.has_events}
    if not has.get(wanted.name.kind, server.has_routines):
        return (f"{server.title} has no {plural(wanted.name.kind)}",)
    return (wanted.obstacle,) if wanted.obstacle else ()


def plural(kind: str) -> str:
    """Several of a kind."""
    return "package bodies" if kind == "package body" else f"{kind}s"


def _differing(wanted: AdaptedObject, there: StoredObject) -> Iterator[str]:
    """What differs besides the text, as it should be and as it is."""
    ours, theirs = wanted.settings, there.settings
    pairs: dict[str, tuple[object, object]] = {
        "character_set_client": (utf8mb3_name(ours.client), utf8mb3_name(theirs.client)),
        "collation_connection": (ours.collation, utf8mb3_name(theirs.collation)),
        "sql_mode": (ours.modes, theirs.modes),
        "time_zone": (ours.time_zone, theirs.time_zone),
        "table": (wanted.table if wanted.name.kind == "trigger" else "", there.table),
        "DEFINER": (wanted.definer or there.definer, there.definer),
        "COMMENT": (wanted.source.comment, there.comment),
    }
    for name, (here, other) in pairs.items():
        if other not in (here, ""):
            yield f"{name} is to be {_shown(here)}, and is {_shown(other)}"
    if there.status == "ENABLED" != wanted.source.status:
        yield f"it runs, and is {wanted.source.status} at the source"


def _shown(value: object) -> str:
    return ",".join(sorted(value)) or "empty" if isinstance(value, frozenset) else str(value)
