"""Reading source and task files: from a path, or from a text that somebody else read (dmctl, for the daemon)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Literal

from dm.config.document import SIZE_LIMIT, YamlMap, marks_of, parse
from dm.config.problem import ProblemReport, TextPlace
from dm.config.references import check_references, check_start_points
from dm.config.rule_sets import check_rule_sets
from dm.config.section import LoadContext, read_section, warnings_of
from dm.config.source import SourceConfig
from dm.config.task import TaskConfig


def load_source(path: str | Path, *, environ: Mapping[str, str] | None = None) -> SourceConfig:
    """Read a source file; raises ConfigErrors with everything that is wrong."""
    return read_source(_content(path), file=str(path), directory=Path(path).parent, environ=environ)


def load_task(
    path: str | Path,
    sources: Mapping[str, SourceConfig] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
) -> TaskConfig:
    """Read a task file, and check it against the known sources if they are given; raises ConfigErrors."""
    return read_task(_content(path), sources, file=str(path), directory=Path(path).parent, environ=environ)


def read_source(
    content: str | bytes,
    *,
    file: str = "source file",
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    key_file: Path | None = None,
) -> SourceConfig:
    """Read a source file's content; `file` is for messages, relative paths in it start at `directory`.

    `key_file` holds the key of passwords that DM has encrypted.
    """
    context = _context(file, directory, environ, key_file)
    tree = _tree(content, "source", context.report)
    source = None if tree is None else read_section(SourceConfig, tree, context)
    if isinstance(tree, YamlMap):
        check_rule_sets(tree, context.report)
    context.report.raise_if_any()
    assert source is not None, "a file without a model has problems"
    source._warnings = warnings_of(context)
    return source


def read_task(
    content: str | bytes,
    sources: Mapping[str, SourceConfig] | None = None,
    *,
    file: str = "task file",
    directory: Path | None = None,
    environ: Mapping[str, str] | None = None,
    key_file: Path | None = None,
) -> TaskConfig:
    """Read a task file's content; the arguments are those of `read_source`."""
    context = _context(file, directory, environ, key_file)
    tree = _tree(content, "task", context.report)
    task = None if tree is None else read_section(TaskConfig, tree, context)
    if isinstance(tree, YamlMap):
        check_references(tree, sources, context.report)
        check_rule_sets(tree, context.report, sources)
        check_start_points(tree, sources, context.report)
    context.report.raise_if_any()
    assert task is not None, "a file without a model has problems"
    task._warnings = warnings_of(context)
    task._marks = {} if tree is None else marks_of(tree)
    task._sources = dict(sources or {})
    return task


def _tree(content: str | bytes, kind: Kind, report: ProblemReport) -> YamlMap | None:
    tree = parse(content, report)
    return None if tree is None or is_other(tree, kind, report) else tree


def _context(
    file: str, directory: Path | None, environ: Mapping[str, str] | None, key_file: Path | None
) -> LoadContext:
    return LoadContext(ProblemReport(file), os.environ if environ is None else environ, directory or Path(), key_file)


def _content(path: str | Path) -> bytes:
    report = ProblemReport(str(path))
    why = ""
    content = b""
    try:
        if Path(path).exists() and not Path(path).is_file():
            why = "it is not a file"
        else:
            with Path(path).open("rb") as file:
                content = file.read(SIZE_LIMIT + 1)
    except OSError as error:
        why = error.strerror or "unknown"
    except ValueError:  # a zero byte in the path
        why = "it is not a path"
    if why:
        report.add("config-unreadable", TextPlace(1, 1), "", why=why)
    report.raise_if_any()
    return content


# Source files and task files, told apart: one that was given in place of the other is one problem, not twenty.

Kind = Literal["source", "task"]

_KEYS: Final[dict[Kind, frozenset[str]]] = {
    "source": frozenset({"source-id", "from"}),
    "task": frozenset({"task-mode", "mysql-instances", "target-database"}),
}
_VERBS: Final[dict[Kind, str]] = {
    "source": "`dmctl operate-source create`",
    "task": "`dmctl check-task` and `dmctl start-task`",
}


def is_other(tree: YamlMap, wanted: Kind, report: ProblemReport) -> bool:
    """Whether the file is clearly of the other kind; that is reported."""
    other: Kind = "task" if wanted == "source" else "source"
    if _KEYS[wanted] & tree.keys() or len(_KEYS[other] & tree.keys()) < 2:
        return False
    report.add(
        "config-other-file", TextPlace(1, 1), "", which=other, expected=f"a {wanted} file",
        suggestion=f"{other} files are for {_VERBS[other]}",
    )  # fmt: skip
    return True
