"""The binlog event filter at work.

The rules whose patterns match a table are asked one after the other, schema-level ones first, each first by the
event's name and then, for a statement, by its text. An `Ignore` rule that matches skips; an `Error` rule that matches
stops the task; a `Do` rule that does not match skips, so that it is a list of what may pass. When no rule objects, the
event is done. The order of a rule's `events` counts: the first entry that speaks of the event (a class, its negation
`none ...`, or its name) decides.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from dm.config.event_filter import ALIASES, DDL_EVENTS, DML_EVENTS, INCOMPATIBLE_DDL_EVENTS, FilterRule
from dm.config.pattern import Match, matcher
from dm.config.regex import compile_regex
from dm.errors import DMError
from dm.ident import TableName

Verdict = Literal["do", "ignore"]
DO: Verdict = "do"
IGNORE: Verdict = "ignore"


@dataclass(frozen=True, slots=True)
class _Rule:
    schema: Match
    table: Match | None  # None: for the schema and everything in it
    statement: re.Pattern[str] | None
    rule: FilterRule

    def concerns(self, name: TableName) -> bool:
        return self.schema(name.schema) and (self.table is None or self.table(name.table))

    def verdict(self, *, matched: bool, name: object, event: str) -> Verdict:
        if matched and self.rule.action == "Error":
            raise DMError("event-refused", rule=self.rule.name or self.rule.schema_pattern, event=event, table=name)
        skipped = matched if self.rule.action == "Ignore" else (not matched and self.rule.action == "Do")
        return IGNORE if skipped else DO


class EventFilter:
    """Decides which events of a table are done."""

    def __init__(self, rules: Iterable[FilterRule], *, case_sensitive: bool) -> None:
        built = [
            _Rule(
                matcher(rule.schema_pattern, case_sensitive=case_sensitive, regex=False),
                matcher(rule.table_pattern, case_sensitive=case_sensitive, regex=False) if rule.table_pattern else None,
                _statement(rule.sql_pattern),
                rule,
            )
            for rule in rules
        ]
        self._rules = sorted(built, key=lambda rule: rule.table is not None)

    def decide(self, name: TableName, event: str, statement: str = "") -> Verdict:
        """What to do with an event; `statement` is the original text of a DDL and empty for rows."""
        event = ALIASES.get(event, event)
        for rule in self._rules:
            if not rule.concerns(name):
                continue
            if rule.verdict(matched=_names(rule.rule.events, event), name=name, event=event) == IGNORE:
                return IGNORE
            if statement and rule.statement is not None:
                matched = rule.statement.search(statement) is not None
                if rule.verdict(matched=matched, name=name, event=event) == IGNORE:
                    return IGNORE
        return DO

    def ignores_text(self, statement: str) -> bool:
        """Whether a statement of which nothing but its text is known is skipped: by rules for every schema."""
        for rule in self._rules:
            if rule.statement is None or not rule.concerns(TableName("", "")):
                continue
            matched = rule.statement.search(statement) is not None
            if rule.verdict(matched=matched, name="a statement that is not understood", event="a statement") == IGNORE:
                return True
        return False


def _statement(patterns: tuple[str, ...]) -> re.Pattern[str] | None:
    return compile_regex("|".join(f"(?:{pattern})" for pattern in patterns), ignore_case=True) if patterns else None


def _names(entries: tuple[str, ...], event: str) -> bool:
    """Whether the entries of a rule name an event."""
    dml = event in DML_EVENTS
    incompatible = event in INCOMPATIBLE_DDL_EVENTS
    ddl = incompatible or event in DDL_EVENTS
    for entry in entries:
        if entry == "all" or (entry == "all ddl" and ddl) or (entry == "all dml" and dml):
            return True
        if entry == "none" or (entry == "none ddl" and ddl) or (entry == "none dml" and dml):
            return False
        if entry == event or (entry == "incompatible ddl changes" and incompatible):
            return True
    return False
