"""The route: which source tables become which target table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from dm.config.pattern import PatternText
from dm.config.scalar import Text
from dm.config.section import Issue, NamedRule

_EXTRACT = "add a generated column or a default to the target table, or keep the tables apart"


class RouteRule(NamedRule):
    """One rule; without a table pattern it is for the whole schema."""

    refused: ClassVar = {"extract-table": _EXTRACT, "extract-schema": _EXTRACT, "extract-source": _EXTRACT}

    schema_pattern: PatternText
    table_pattern: PatternText = ""
    target_schema: Text
    target_table: Text = ""

    def check(self) -> Iterator[Issue]:
        """Both schemas are mandatory; a target name has a length."""
        if not self.schema_pattern:
            yield Issue("config-route", "schema-pattern", details={"why": "`schema-pattern` is empty"})
        if not self.target_schema:
            yield Issue("config-route", "target-schema", details={"why": "`target-schema` is empty"})
        for key, name in (("target-schema", self.target_schema), ("target-table", self.target_table)):
            if len(name) > 64:
                yield Issue(
                    "config-route", key, expected="at most 64 characters", details={"why": "the name is too long"}
                )
