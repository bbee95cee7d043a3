"""The binlog event filter at work.

Every rule whose patterns match a table (schema-level ones match all tables of the schema) says what it thinks of an
event, by the event's name and, for a statement, by the original text as well. An `Ignore` rule that matches skips; an
`Error` rule that matches stops the task; a `Do` rule that does not match skips, so that it is a list of what may pass.
`Ignore` goes before `Error`, and `Error` before `Do`, in whichever order the rules stand: so DM documents it, while its
code takes the first rule that it meets in a tree, an order that nobody can see in a file.

Within one rule the order of `events` does count: the first entry that speaks of the event (a class, its negation
`none ...`, or its name) decides. An operation of an ALTER TABLE has a name of its own (`drop column`), and is named by
`alter table` as well: a list that was written when DM knew no finer names keeps its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal

from dm.config.pattern import Match, matcher
from dm.config.regex import compile_regex
from dm.config.rules import ALIASES, DDL_EVENTS, DML_EVENTS, INCOMPATIBLE_DDL_EVENTS, FilterRule
from dm.errors import DMError
from dm.ident import TableName

Verdict = Literal["do", "ignore"]
DO: Verdict = "do"
IGNORE: Verdict = "ignore"

_ALTER = "alter table"
_REMOVING: Final = (  # rows of a table, or a table from those that the rules lead to
    "truncate table", "drop table", "drop database", "rename table", "truncate table partition",
    "drop table partition", "exchange table partition",
)  # fmt: skip
_REPLACING: Final = ("create table", "create database", _ALTER)  # CREATE OR REPLACE, CONVERT PARTITION .. TO TABLE
# Statements that remove no rows, by their first words; of those without a second one, all.
_HARMLESS: Final[Mapping[str, frozenset[str]]] = {
    "create": frozenset(
        ("database", "event", "fulltext", "function", "index", "procedure", "role", "schema", "server", "spatial",
         "table", "trigger", "unique", "user", "view", "definer")
    ),
    "drop": frozenset(("event", "function", "index", "procedure", "role", "server", "trigger", "user", "view")),
    "alter": frozenset(("event", "function", "procedure", "server", "user", "view")),
    "grant": frozenset(),
    "revoke": frozenset(),
}  # fmt: skip
_WORDS: Final = r"(?:[A-Za-z]+|\((?:\?:)?[A-Za-z]+(?:\|[A-Za-z]+)*\))"
# Text that begins with certain words whatever follows: there is no other alternative, and no word may be left out.
_HEAD: Final = re.compile(
    rf"(?:\(\?i\))?\^(?P<first>{_WORDS})(?:(?:\\s| )\+?(?P<second>{_WORDS}))?(?![*+?{{])(?!.*(?:\||\(\?)).*", re.DOTALL
)
_OF_ALTER: Final = {"rename table", _ALTER} | {name for name in _REMOVING if name.endswith("partition")}


@dataclass(frozen=True, slots=True)
class _Rule:
    schema: Match
    table: Match | None  # None: for the schema and everything in it
    statement: re.Pattern[str] | None
    rule: FilterRule

    def concerns(self, name: TableName) -> bool:
        return self.schema(name.schema) and (self.table is None or self.table(name.table))

    def objects(self, event: str | None, statement: str, *, alters: bool) -> bool:
        """Whether the rule skips or refuses; without an event only the statement's text is looked at."""
        wanted = self.rule.action == "Do"
        if event is not None and _names(self.rule.events, event, alters=alters) != wanted:
            return True
        if not statement or self.statement is None:
            return False
        return (self.statement.search(statement) is not None) != wanted


class EventFilter:
    """Decides which events of a table are done."""

    def __init__(self, rules: Iterable[FilterRule], *, case_sensitive: bool) -> None:
        self._rules = [
            _Rule(
                matcher(rule.schema_pattern, case_sensitive=case_sensitive, regex=False),
                matcher(rule.table_pattern, case_sensitive=case_sensitive, regex=False) if rule.table_pattern else None,
                _statement(rule.sql_pattern),
                rule,
            )
            for rule in rules
        ]

    def decide(self, name: TableName, event: str, statement: str = "", *, alters: bool = False) -> Verdict:
        """What to do with an event; `statement` is the original text of a DDL and empty for rows."""
        event = ALIASES.get(event, event)
        concerned = [rule for rule in self._rules if rule.concerns(name)]
        objecting = [rule for rule in concerned if rule.objects(event, statement, alters=alters)]
        return _verdict(objecting, event, name)

    def ignores_text(self, statement: str) -> bool:
        """Whether a statement of which nothing but its text is known is skipped: by rules for every schema."""
        concerned = [rule for rule in self._rules if rule.concerns(TableName("", ""))]
        objecting = [rule for rule in concerned if rule.objects(None, statement, alters=False)]
        return _verdict(objecting, "a statement", "what can't be understood") == IGNORE

    def keeps_rows(self, *, replaces: bool) -> str:
        """By which rule the target may keep rows that a statement has removed at the source; empty where by none.

        All rules count, also those of tables that the source has no more. One with a `sql-pattern` may have left out
        any statement, but where each pattern wants a beginning that no statement has which removes rows. `replaces`:
        whether the source has MariaDB's statements that do.
        """
        for each in self._rules:
            name = each.rule.name or each.rule.schema_pattern
            if each.rule.action == "Error":  # the task stops there
                continue
            for event in (*_REMOVING, *(_REPLACING if replaces else ())):
                if each.objects(event, "", alters=event in _OF_ALTER):
                    return f"filter {name} leaves out `{event}`"
            rule = each.rule
            for pattern in rule.sql_pattern:
                if rule.action == "Do" or not _is_harmless(pattern, replaces=replaces):
                    return f"filter {name} leaves out statements by their text (`sql-pattern` {pattern})"
        return ""


def _is_harmless(pattern: str, *, replaces: bool) -> bool:
    """Whether an expression matches only statements that remove no rows; False where that can't be told."""
    head = _HEAD.fullmatch(pattern)
    if head is None:
        return False
    seconds = _words(head["second"])
    for first in _words(head["first"]):
        harmless = _HARMLESS.get(first)
        if harmless is None:
            return False
        every = not harmless or (first == "create" and not replaces)  # only CREATE OR REPLACE removes rows
        if not every and not (seconds and harmless.issuperset(seconds)):
            return False
    return True


def _words(group: str | None) -> list[str]:
    return [] if group is None else re.findall("[a-z]+", group.lower())


def _verdict(objecting: list[_Rule], event: str, name: object) -> Verdict:
    actions = {rule.rule.action for rule in objecting}
    if "Ignore" not in actions and "Error" in actions:
        rule = next(rule.rule for rule in objecting if rule.rule.action == "Error")
        raise DMError("event-refused", rule=rule.name or rule.schema_pattern, event=event, table=name)
    return IGNORE if objecting else DO


def _statement(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return compile_regex("|".join(f"(?:{pattern})" for pattern in patterns), ignore_case=True) if patterns else None


def _names(entries: tuple[str, ...], event: str, *, alters: bool) -> bool:
    """Whether the entries of a rule name an event."""
    dml = event in DML_EVENTS
    incompatible = event in INCOMPATIBLE_DDL_EVENTS
    ddl = incompatible or event in DDL_EVENTS
    for entry in entries:
        if entry == "all" or (entry == "all ddl" and ddl) or (entry == "all dml" and dml):
            return True
        if entry == "none" or (entry == "none ddl" and ddl) or (entry == "none dml" and dml):
            return False
        if entry == event or (entry == "incompatible ddl changes" and incompatible) or (entry == _ALTER and alters):
            return True
    return False
