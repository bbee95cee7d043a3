"""Subtasks with rules, from the YAML a user would write."""

from __future__ import annotations

import textwrap

from dm.config import SubtaskConfig, read_source, read_task
from dm.rules import TableRules

_SOURCE = "source-id: mysql-01\nfrom: {host: db1}\n"
_TASK = """\
name: shop
task-mode: all
target-database: {host: target}
mysql-instances:
  - source-id: mysql-01
"""


def subtask(references: str, sections: str, source: str = "") -> SubtaskConfig:
    """The subtask of an instance with these references to these sections."""
    sources = {"mysql-01": read_source(_SOURCE + textwrap.dedent(source))}
    instance = textwrap.indent(textwrap.dedent(references), "    ")
    return read_task(_TASK + instance + "\n" + textwrap.dedent(sections), sources).subtask("mysql-01")


def filtered(rules: str, *, sensitive: bool = False) -> TableRules:
    """Rules with these entries of `filters`, named r0, r1, ... in order."""
    entries = [line.strip() for line in rules.strip().splitlines()]
    sections = "filters:\n" + "".join(f"  r{number}: {{{entry}}}\n" for number, entry in enumerate(entries))
    names = ", ".join(f"r{number}" for number in range(len(entries)))
    return TableRules(subtask(f"filter-rules: [{names}]", f"{sections}case-sensitive: {str(sensitive).lower()}\n"))


def routed(rules: str, *, sensitive: bool = False) -> TableRules:
    """Rules with these entries of `routes`, named r0, r1, ... in order."""
    entries = [line.strip() for line in rules.strip().splitlines()]
    sections = "routes:\n" + "".join(f"  r{number}: {{{entry}}}\n" for number, entry in enumerate(entries))
    names = ", ".join(f"r{number}" for number in range(len(entries)))
    return TableRules(subtask(f"route-rules: [{names}]", f"{sections}case-sensitive: {str(sensitive).lower()}\n"))


def listed(lists: str, *, sensitive: bool = False) -> TableRules:
    """Rules with this block-allow-list."""
    sections = f"block-allow-list:\n  b: {lists}\ncase-sensitive: {str(sensitive).lower()}\n"
    return TableRules(subtask("block-allow-list: b", sections))
