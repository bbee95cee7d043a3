"""Reading source and task files, what their rules say taken together, and their text without secrets.

A file is read from a path, or from a text that somebody else read (dmctl, for the daemon).

Rules may contradict each other (two of one kind with the same pattern), or say what is hardly meant (a forgotten `~`).
DM drops the second binlog event filter without a word, and finds out about the second route when a table matches both.
Here both are problems of the file. A source's filters are rules of every task on it, so they count too. A pattern such
as `^log.*` is a name with these signs in it, to DM and here; a warning says so. Checked on the tree, like references.

A file is shown as the user's own text, comments and all, without its secrets. The text is masked where the parser says
that a secret stands, not by a pattern over lines: a password may be quoted, folded over lines, or an anchor that
another key refers to. `${VARIABLE}` and `password-file` stay, since they are names of places where a secret is.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from ruamel.yaml import YAML
from ruamel.yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from dm.config.document import SIZE_LIMIT, Scalar, YamlList, YamlMap, marks_of, parse, shown_key
from dm.config.object_storage import is_object_storage, without_keys
from dm.config.problem import ProblemReport, TextPlace
from dm.config.references import check_references, check_start_points
from dm.config.secret import MASK, referenced_variables
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


_REGEX_SIGNS = re.compile(r"\.[*+]|\\[dDwWsSb]|^\^|\$$|\(.*[|)]|\]\+")
_LISTS = {
    "do-dbs": (),
    "ignore-dbs": (),
    "do-tables": ("db-name", "tbl-name"),
    "ignore-tables": ("db-name", "tbl-name"),
}
_EVENT_FILTER = "config-event-filter"
_ROUTE = "config-route"
_PLAIN = "config-plain-pattern"


def check_rule_sets(tree: YamlMap, report: ProblemReport, sources: Mapping[str, SourceConfig] | None = None) -> None:
    """Record every rule whose pattern another rule of the same instance (or source) has."""
    instances = tree.get("mysql-instances")
    filters, routes = tree.get("filters"), tree.get("routes")
    sensitive = _is_true(tree.get("case-sensitive"))
    for pattern, regex in _patterns(tree):
        if not pattern.text.startswith("~") and _REGEX_SIGNS.search(pattern.text):
            hint = f"begin it with `~` if it is one: `~{pattern.text}`" if regex else "use `*`, `?` and `[...]`"
            shown = pattern.text[:60]
            report.add(_PLAIN, pattern.mark, pattern.path, pattern=shown, suggestion=hint, warning=True)
    if isinstance(filters, YamlList):  # a source file
        rules = ((rule.path, rule) for rule in filters if isinstance(rule, YamlMap))
        _check(rules, _EVENT_FILTER, sensitive, report, {})
    for instance in instances if isinstance(instances, YamlList) else ():
        if isinstance(instance, YamlMap):
            named = instance.get("source-id")
            source = (sources or {}).get(named.text) if isinstance(named, Scalar) else None
            case = sensitive or (source is not None and source.case_sensitive is True)
            taken = {} if source is None else _filters_of(source, case)
            _check(_named(instance.get("filter-rules"), filters), _EVENT_FILTER, case, report, taken)
            _check(_named(instance.get("route-rules"), routes), _ROUTE, case, report, {})


def _patterns(tree: YamlMap) -> Iterator[tuple[Scalar, bool]]:
    """Every pattern of the file, and whether it might be a regular expression."""
    for rule in _rules(tree.get("routes")):
        yield from ((pattern, True) for pattern in _scalars(rule, "schema-pattern", "table-pattern"))
    for rule in _rules(tree.get("filters")):
        yield from ((pattern, False) for pattern in _scalars(rule, "schema-pattern", "table-pattern"))
    for section in ("block-allow-list", "black-white-list"):
        for lists in _rules(tree.get(section)):
            for key, keys in _LISTS.items():
                entries = lists.get(key)
                for entry in entries if isinstance(entries, YamlList) else ():
                    names = _scalars(entry, *keys) if isinstance(entry, YamlMap) else [entry]
                    yield from ((name, True) for name in names if isinstance(name, Scalar))


def _rules(section: object) -> list[YamlMap]:
    rules = section.values() if isinstance(section, YamlMap) else section if isinstance(section, YamlList) else ()
    return [rule for rule in rules if isinstance(rule, YamlMap)]


def _scalars(rule: YamlMap, *keys: str) -> list[Scalar]:
    return [value for key in keys if isinstance(value := rule.get(key), Scalar)]


def _filters_of(source: SourceConfig, sensitive: bool) -> dict[tuple[str, str], str]:
    """The patterns of the source's own filters, each with what a message calls the filter."""
    found: dict[tuple[str, str], str] = {}
    for number, rule in enumerate(source.filters):
        pattern = (_folded(rule.schema_pattern, sensitive), _folded(rule.table_pattern, sensitive))
        found[pattern] = f"filters[{number}] of source {source.source_id}"
    return found


def _named(names: object, section: object) -> Iterable[tuple[str, YamlMap]]:
    if not isinstance(names, YamlList) or not isinstance(section, YamlMap):
        return
    done: set[str] = set()
    for name in names:
        rule = section.get(name.text) if isinstance(name, Scalar) else None
        if isinstance(rule, YamlMap) and name.text not in done:
            done.add(name.text)
            yield shown_key(name.text), rule


def _check(
    rules: Iterable[tuple[str, YamlMap]],
    kind: str,
    sensitive: bool,
    report: ProblemReport,
    taken: dict[tuple[str, str], str],
) -> None:
    seen = dict(taken)
    for name, rule in rules:
        pattern = (_text(rule.get("schema-pattern"), sensitive), _text(rule.get("table-pattern"), sensitive))
        if not pattern[0]:
            continue
        if pattern in seen:
            report.add(
                kind,
                rule.mark_of("schema-pattern"),
                rule.path,
                why=f"`{seen[pattern]}` has the same patterns",
                suggestion="put both into one rule" if kind == _EVENT_FILTER else "remove one of them",
            )
        else:
            seen[pattern] = name


def _text(value: object, sensitive: bool) -> str:
    if not isinstance(value, Scalar) or value.null:
        return ""
    return _folded(value.text, sensitive)


def _folded(text: str, sensitive: bool) -> str:
    return text if sensitive else text.lower()


def _is_true(value: object) -> bool:
    return isinstance(value, Scalar) and value.text.lower() in ("true", "yes", "on", "y")


SECRET_WORDS: Final = ("password", "passwd", "secret", "token")
"""Words of which one is in the name of every field that holds a secret."""

_SECRET_KEYS: Final = frozenset({"ssl-key-bytes", "ssl-key-base64"})
_PLACES: Final = frozenset({"password-file", "secret-key-path"})  # named like secrets, and only say where one is
_FILES: Final = frozenset({"relay-dir", "password-file", "secret-key-path", "ssl-ca", "ssl-cert", "ssl-key"})


def masked(text: str, directory: Path | None = None) -> str:
    """The file's text without secrets; with a directory, paths that start there are written in full."""
    text = text.removeprefix("\ufeff")
    finder = _Finder(iter(YAML(typ="safe", pure=True).parse(text)), directory)
    finder.document()
    for start, (end, instead) in sorted(finder.found.items(), reverse=True):
        text = text[:start] + instead + text[end:]
    return text


@dataclass(slots=True)
class _Finder:
    """Walks over the parser's events and notes which parts of the text become another one."""

    events: Iterator[Any]
    directory: Path | None
    found: dict[int, tuple[int, str]] = field(default_factory=dict)  # by the place of the first character
    anchors: dict[str, ScalarEvent] = field(default_factory=dict)

    def document(self) -> None:
        for event in self.events:
            if isinstance(event, ScalarEvent | MappingStartEvent):
                self._value(event, "", secret=False)

    def _value(self, event: Any, key: str, *, secret: bool) -> None:
        if isinstance(event, AliasEvent):
            event = self.anchors.get(event.anchor)
            if event is None:
                return  # it names a mapping or a list, whose own keys were looked at
        if isinstance(event, ScalarEvent):
            if event.anchor is not None:
                self.anchors[event.anchor] = event
            self._scalar(event, key, secret=secret)
        elif isinstance(event, MappingStartEvent):
            self._mapping(secret=secret)
        else:
            while not isinstance(item := next(self.events), SequenceEndEvent):
                self._value(item, key, secret=secret)

    def _mapping(self, *, secret: bool) -> None:
        while not isinstance(key := next(self.events), MappingEndEvent):
            word = key.value if isinstance(key, ScalarEvent) else ""
            self._value(next(self.events), word, secret=secret or _is_secret(word))

    def _scalar(self, event: ScalarEvent, key: str, *, secret: bool) -> None:
        if secret and not _says_nothing(event.value):
            self._replace(event, f"'{MASK}'")
        elif is_object_storage(event.value) and (shown := without_keys(event.value)) != event.value:
            self._replace(event, "'" + shown.replace("'", "''") + "'")
        elif self.directory is not None and key in _FILES and event.value:
            path = str(self.directory / event.value)
            if path != event.value:
                self._replace(event, "'" + path.replace("'", "''") + "'")

    def _replace(self, event: ScalarEvent, instead: str) -> None:
        anchor = "" if event.anchor is None else f"&{event.anchor} "
        lines = "\n" if event.style in ("|", ">") else ""  # these two end with the line before the next key
        self.found[event.start_mark.index] = (event.end_mark.index, f"{anchor}{instead}{lines}")


def _is_secret(key: str) -> bool:
    name = key.lower()
    return name not in _PLACES and (name in _SECRET_KEYS or any(word in name for word in SECRET_WORDS))


def _says_nothing(value: str) -> bool:
    return not value or any(value == "${" + name + "}" for name in referenced_variables(value))
