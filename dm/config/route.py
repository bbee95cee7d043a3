"""The route: which source tables become which target table, and what of their names is kept in columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from dm.config.pattern import RoutePattern, bad_regex
from dm.config.regex import RegexError, compile_regex
from dm.config.scalar import Text, checked, wrong
from dm.config.section import Issue, NamedRule, Section

NAME_LIMIT = 64

Part = Literal["table", "schema", "source"]


def _extracting(text: str) -> None:
    if text.startswith("~"):
        raise wrong("config-route", suggestion=f"write `{text[1:]}`", why="here a regular expression has no `~`")
    try:
        groups = compile_regex(text).groups
    except RegexError as error:
        raise bad_regex("config-route", error) from None
    if not groups:
        why = f"`{text}` has no group in parentheses, so there is nothing to extract"
        raise wrong("config-route", suggestion="put what is wanted in parentheses: `t_(.*)`", why=why)


def _column(text: str) -> None:
    if not text:
        raise wrong("config-route", "the name of a column", why="`target-column` is empty")
    if len(text) > NAME_LIMIT:
        raise wrong("config-route", f"at most {NAME_LIMIT} characters", why="the name is too long")


ExtractingRegex = Annotated[str, checked(_extracting)]
ColumnName = Annotated[str, checked(_column)]


class TableExtraction(Section):
    """A column for what a regular expression finds in a table's name."""

    place: ClassVar = "under `extract-table` of a route"
    table_regexp: ExtractingRegex
    target_column: ColumnName


class SchemaExtraction(Section):
    """A column for what a regular expression finds in a schema's name."""

    place: ClassVar = "under `extract-schema` of a route"
    schema_regexp: ExtractingRegex
    target_column: ColumnName


class SourceExtraction(Section):
    """A column for what a regular expression finds in the source's id."""

    place: ClassVar = "under `extract-source` of a route"
    source_regexp: ExtractingRegex
    target_column: ColumnName


@dataclass(frozen=True, slots=True)
class Extraction:
    """One column of the target that holds a part of a name."""

    part: Part
    regexp: str
    column: str


class RouteRule(NamedRule):
    """One rule; without a table pattern it is for the whole schema."""

    schema_pattern: RoutePattern
    table_pattern: RoutePattern = ""
    target_schema: Text
    target_table: Text = ""
    extract_table: TableExtraction | None = None
    extract_schema: SchemaExtraction | None = None
    extract_source: SourceExtraction | None = None

    @property
    def extractions(self) -> tuple[Extraction, ...]:
        """The columns that the rule adds, in DM's order."""
        found: list[Extraction] = []
        if self.extract_table is not None:
            found.append(Extraction("table", self.extract_table.table_regexp, self.extract_table.target_column))
        if self.extract_schema is not None:
            found.append(Extraction("schema", self.extract_schema.schema_regexp, self.extract_schema.target_column))
        if self.extract_source is not None:
            found.append(Extraction("source", self.extract_source.source_regexp, self.extract_source.target_column))
        return tuple(found)

    def check(self) -> Iterator[Issue]:
        """Both schemas are mandatory; a target name has a length; no column holds two parts."""
        if not self.schema_pattern:
            yield Issue("config-route", "schema-pattern", details={"why": "`schema-pattern` is empty"})
        if not self.target_schema:
            yield Issue("config-route", "target-schema", details={"why": "`target-schema` is empty"})
        for key, name in (("target-schema", self.target_schema), ("target-table", self.target_table)):
            if len(name) > NAME_LIMIT:
                expected = f"at most {NAME_LIMIT} characters"
                yield Issue("config-route", key, expected, details={"why": "the name is too long"})
        seen: set[str] = set()
        for extraction in self.extractions:
            if extraction.column.lower() in seen:
                why = f"two parts of names go into column `{extraction.column}`"
                yield Issue("config-route", f"extract-{extraction.part}", details={"why": why})
            seen.add(extraction.column.lower())
