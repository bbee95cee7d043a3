"""Small files to start from."""

from __future__ import annotations

import textwrap

from dm.config import ConfigErrors, Problem, SourceConfig, TaskConfig, read_source, read_task

SOURCE = """\
source-id: mysql-01
from:
  host: db1.example
  port: 3306
  user: dm
  password: secret
"""

TASK = """\
name: shop
task-mode: all
target-database:
  host: target.example
  port: 4000
  user: dm
  password: secret
mysql-instances:
  - source-id: mysql-01
"""


def source(text: str = SOURCE, **environ: str) -> SourceConfig:
    """The source of a text."""
    return read_source(textwrap.dedent(text), file="source.yaml", environ=environ)


def task(text: str = TASK, sources: dict[str, SourceConfig] | None = None) -> TaskConfig:
    """The task of a text, on the source mysql-01."""
    known = {"mysql-01": source()} if sources is None else sources
    return read_task(textwrap.dedent(text), known, file="task.yaml", environ={})


def source_problems(text: str | bytes, **environ: str) -> tuple[Problem, ...]:
    """What is wrong with a source file."""
    try:
        read_source(text, file="source.yaml", environ=environ)
    except ConfigErrors as error:
        return error.problems
    return ()


def task_problems(text: str | bytes, sources: dict[str, SourceConfig] | None = None) -> tuple[Problem, ...]:
    """What is wrong with a task file."""
    try:
        read_task(text, {"mysql-01": source()} if sources is None else sources, file="task.yaml", environ={})
    except ConfigErrors as error:
        return error.problems
    return ()
