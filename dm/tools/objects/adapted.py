"""A source's object as the target is to have it.

- Its schema, and a trigger's table, are where the task routes them. Names of schemas inside the text follow, where an
  object of that name is known there: `a.b` may as well be a column `b` of an alias `a`.
- A table that the task gives another name is named as a finding wherever the text has that name. Which of such names
  are the table, only a person can tell: a column or variable may be called like it.
- DEFINER is kept, mapped to another account, or left out, so that it becomes the account that creates the object.
- An event is disabled.
- Collations are the target's, by the task's `collation-map` and the pairs that apply without it.
- Modes that say nothing of what a statement does, and that the target lacks, are left out of sql_mode.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Final

from dm.errors import DMError
from dm.ident import Ident, TableName
from dm.mysql.schema.charset import utf8mb3_name
from dm.mysql.schema.translation import Translation
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.literal import quoted
from dm.tools.objects.statement import Edit, ObjectStatement, context_of, encoded
from dm.tools.objects.stored import Account, ObjectName, ObjectSettings, StoredObject

DISABLED: Final = b"DISABLE"


@dataclass(frozen=True, slots=True)
class Definers:
    """What becomes of DEFINER: `--definer`."""

    left: bool = False
    every: Account | None = None
    mapped: Mapping[Account, Account] | None = None

    @classmethod
    def of(cls, texts: Collection[str]) -> Definers:
        """From the words `keep`, `leave`, `USER@HOST` and `USER@HOST=USER@HOST`; raises DMError."""
        mapped, every, left = dict[Account, Account](), None, False
        for text in texts:
            old, equals, new = text.partition("=")
            if text in ("keep", "leave"):
                left = left or text == "leave"
            elif "@" in old and (not equals or "@" in new):
                if equals:
                    mapped[Account.of(old)] = Account.of(new)
                else:
                    every = Account.of(old)
            else:
                raise DMError("objects-definer-invalid", definer=text)
        return cls(left, every, mapped)

    def definer(self, stored: Account) -> Account | None:
        """The account that stands in the statement; None for none."""
        found = (self.mapped or {}).get(stored) or self.every
        if found is not None:
            return found
        return None if self.left else stored


@dataclass(frozen=True, slots=True)
class RoutedNames:
    """Where the task takes schemas and tables, and what there is at the source."""

    schemas: Mapping[str, str]
    tables: Mapping[TableName, TableName]  # those that are migrated
    known: frozenset[TableName]  # all names of tables, views and routines in these schemas

    @property
    def renamed(self) -> Mapping[TableName, TableName]:
        """Tables that are not called the same, or not where their schema is."""
        return {
            table: target
            for table, target in self.tables.items()
            if target != TableName(self.schemas.get(table.schema, table.schema), table.table)
        }


@dataclass(frozen=True, slots=True)
class AdaptedObject:
    """An object as it is to be created; without a statement `obstacle` says why not."""

    source: StoredObject
    name: ObjectName
    statement: bytes
    settings: ObjectSettings
    definer: Account | None
    table: str = ""  # of a trigger
    names: frozenset[ObjectName] = frozenset()  # what the text may need of others, as the source calls them
    mentioned: frozenset[str] = frozenset()  # all names in the text
    findings: tuple[str, ...] = ()
    obstacle: str = ""

    @property
    def as_stored(self) -> StoredObject:
        """As the target would store it."""
        return replace(self.source, name=self.name, statement=self.statement, settings=self.settings)


@dataclass(frozen=True, slots=True)
class Adaptation:
    """What decides for all objects of one source."""

    places: RoutedNames
    definers: Definers
    translation: Translation
    source: SourceContext
    target: SourceContext
    views: Collection[ObjectName]

    def adapted(self, stored: StoredObject) -> AdaptedObject:
        """The object for the target."""
        table = self.places.tables.get(TableName(stored.name.schema, stored.table))
        found = AdaptedObject(
            stored,
            moved(stored, self.places),
            stored.statement or b"",
            self._settings(stored.settings),
            self.definers.definer(stored.definer),
            table="" if table is None else table.table,
        )
        if stored.statement is None:
            return replace(found, obstacle="the account may not read its text")
        try:
            return self._rewritten(found)
        except DMError as error:
            return replace(found, statement=b"", obstacle=error.message)

    def _settings(self, settings: ObjectSettings) -> ObjectSettings:
        lost = self.target.dialect.forgotten_modes
        modes = ",".join(mode for mode in settings.sql_mode.split(",") if mode.upper() not in lost)
        return ObjectSettings(
            settings.client,
            self._collation(settings.collation),
            self._collation(settings.database_collation),
            modes,
            settings.time_zone,
        )

    def _collation(self, name: str) -> str:
        return utf8mb3_name(self.translation.collation(name, self.source, self.target)) if name else ""

    def _rewritten(self, found: AdaptedObject) -> AdaptedObject:
        stored = found.source
        statement = ObjectStatement(stored, context_of(stored, self.source))
        edits = [*self._head(found, statement)]
        findings = list[str]()
        self._body(found, statement, edits, findings)
        names = frozenset(self._needed(stored, statement)) if stored.name.kind == "view" else frozenset()
        if statement.head.other is not None:
            other = statement.names(statement.head.other)
            names |= {ObjectName("trigger", stored.name.schema, each) for each in other}
        mentioned = frozenset(name for at in range(len(statement.lexemes)) for name in statement.names(at))
        return replace(
            found, statement=statement.edited(edits), names=names, mentioned=mentioned, findings=tuple(findings)
        )

    def _head(self, found: AdaptedObject, statement: ObjectStatement) -> list[Edit]:
        head, charset = statement.head, found.settings.client
        edits, schema = list[Edit](), found.name.schema
        if not statement.spells(head.name, schema, found.name.name):
            edits.append(Edit(head.name, encoded(Ident(found.name.name).sql, charset)))
        if head.definer is not None:
            definer = found.definer
            text = "" if definer is None else f"DEFINER={account_in_sql(definer)} "
            edits.append(Edit(head.definer, encoded(text, charset)))
        if head.table is not None and not statement.spells(head.table, schema, found.table):
            edits.append(Edit(head.table, encoded(Ident(found.table).sql, charset)))
        if head.status is not None:
            edits.append(Edit(head.status, DISABLED))
        if head.comment is not None:
            edits.append(Edit(head.comment, b"COMMENT " + _comment(found, charset)))
        return edits

    def _body(self, found: AdaptedObject, statement: ObjectStatement, edits: list[Edit], findings: list[str]) -> None:
        own, charset = found.source.name.schema, found.settings.client
        qualifiers = dict(statement.qualified())
        spoken, unknown = dict[TableName, None](), dict[TableName, None]()
        renamed = self.places.renamed
        for at in range(statement.head.body, len(statement.lexemes)):
            if at in qualifiers:
                for schema in set(statement.names(at)) & self.places.schemas.keys():
                    pairs = {TableName(schema, name) for name in statement.names(qualifiers[at])}
                    spoken.update(dict.fromkeys(pairs & renamed.keys()))
                    if self.places.schemas[schema] == schema:
                        continue
                    if pairs & self.places.known:
                        target = encoded(Ident(self.places.schemas[schema]).sql, charset)
                        edits.append(Edit(statement.span(at), target))
                    else:
                        unknown.update(dict.fromkeys(list(pairs)[:1]))
            elif statement.word(at - 1) != ".":
                pairs = {TableName(own, name) for name in statement.names(at)}
                spoken.update(dict.fromkeys(pairs & renamed.keys()))
            if statement.word(at) == "COLLATE" and (names := statement.names(at + 1)):
                mapped = self._collation(names[0])
                if mapped.lower() != utf8mb3_name(names[0]).lower():
                    edits.append(Edit(statement.span(at + 1), encoded(Ident(mapped).sql, charset)))
        findings += [f"its text has the name of {name}, which the task routes to {renamed[name]}" for name in spoken]
        findings += [f"its text has {name}, which is not there: that stays as it is" for name in unknown]

    def _needed(self, stored: StoredObject, statement: ObjectStatement) -> set[ObjectName]:
        """The views that a view may need: in the server's own text a column always has a table before it, or AS."""
        own, found = stored.name.schema, set[ObjectName]()
        for at in range(statement.head.body, len(statement.lexemes)):
            before = statement.word(at - 1)
            if before == "AS":
                continue
            schemas: tuple[str, ...] = (own,)
            if before == ".":
                schemas = statement.names(at - 2)
            found |= {ObjectName("view", schema, name) for schema in schemas for name in statement.names(at)}
        return {name for name in found if name in self.views and name != stored.name}


def moved(stored: StoredObject, places: RoutedNames) -> ObjectName:
    """The object's name at the target: in the schema that its own goes to, a trigger's in that of its table."""
    kind, schema, name = stored.name
    table = places.tables.get(TableName(schema, stored.table)) if kind == "trigger" else None
    return ObjectName(kind, places.schemas.get(schema, schema) if table is None else table.schema, name)


def account_in_sql(account: Account) -> str:
    """An account as a statement names it."""
    user = Ident(account.user).sql
    return f"{user}@{Ident(account.host).sql}" if account.host else user


def _comment(found: AdaptedObject, charset: str) -> bytes:
    raw = encoded(found.source.comment, charset)
    if "NO_BACKSLASH_ESCAPES" in found.settings.modes:
        return b"'" + raw.replace(b"'", b"''") + b"'"
    return quoted(raw)
