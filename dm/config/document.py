"""From the bytes of a file to a tree that knows where everything stands.

ruamel.yaml splits the text into parser events; this module builds the tree from them itself, for three reasons. Every
key and value keeps its line and column, so that each later check can point at it. Scalars stay text: a task file is
read by types, not by guessing, so a password of `0123` or `no` stays what was written, while `worker-count: "16"` is
still an error. And the work is bounded before it is done: by the size of the file, the depth of nesting, and the number
of values *after* expansion of aliases, which share one object but count each time they are named.

A text that is not YAML gets an error in the words of those who write such files. The parser speaks of tokens and
collections (`expected <block end>, but found '<scalar>'`), points to the place where it gave up, which may lie lines
after the slip, and quotes the text around, which may be a password. So its words are not passed on. They tell which of
the few slips it is that people make: a tab, a line that is indented differently from its section, a colon without a
blank, a quote or bracket that is not closed, a value that begins with a character of YAML's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeGuard

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
)

from dm.config.problem import ProblemReport, TextPlace

SIZE_LIMIT = 1 << 20  # bytes of a file
DEPTH_LIMIT = 32  # a task file needs 6
VALUE_LIMIT = 300_000  # values after expansion; a file of 1 MiB without aliases stays below

_NULLS = frozenset({"", "~", "null", "Null", "NULL"})
_STANDARD_TAGS = "tag:yaml.org,2002:"
_KEY_SHOWN = re.compile(r"[\w.*-]*", re.ASCII)


@dataclass(frozen=True, slots=True)
class Scalar:
    """One value as it was written; what it means is up to the type of its field."""

    text: str
    plain: bool  # written without quotes
    mark: TextPlace
    path: str

    @property
    def null(self) -> bool:
        """Whether YAML takes it as "no value"."""
        return self.plain and self.text in _NULLS


class YamlMap(dict[str, Any]):
    """A mapping, with the places of its keys."""

    def __init__(self, mark: TextPlace, path: str, *, in_braces: bool = False) -> None:
        super().__init__()
        self.mark = mark
        self.path = path
        self.in_braces = in_braces
        self.key_marks: dict[str, TextPlace] = {}

    def mark_of(self, key: str) -> TextPlace:
        """Where a key stands; the mapping's own place when it has no such key."""
        return self.key_marks.get(key, self.mark)

    def path_of(self, key: str) -> str:
        """The path of a key of this mapping."""
        return f"{self.path}.{key}" if self.path else key

    def subset(self, keys: set[str]) -> YamlMap:
        """The same mapping with only these keys."""
        part = YamlMap(self.mark, self.path, in_braces=self.in_braces)
        part.key_marks = self.key_marks
        part.update((key, value) for key, value in self.items() if key in keys)
        return part


class YamlList(list[Any]):
    """A list, with its place."""

    def __init__(self, mark: TextPlace, path: str) -> None:
        super().__init__()
        self.mark = mark
        self.path = path


Tree = Scalar | YamlMap | YamlList


def is_tree(value: object) -> TypeGuard[Tree]:
    """Whether a value came from a file."""
    return isinstance(value, Scalar | YamlMap | YamlList)


def marks_of(tree: Tree) -> dict[str, TextPlace]:
    """The places of all values, by their paths."""
    found = {tree.path: tree.mark}
    for value in tree.values() if isinstance(tree, YamlMap) else tree if isinstance(tree, YamlList) else ():
        if is_tree(value):
            found |= marks_of(value)
    return found


def shown_key(key: str) -> str:
    """A key as messages show it: `password:secret`, written without the blank, must not show the secret."""
    shown = _KEY_SHOWN.match(key)
    word = shown[0] if shown else ""
    return word if word == key else f"{word}…"


def parse(content: bytes | str, report: ProblemReport) -> YamlMap | None:
    """Read a file's content; records what is wrong, and returns None when there is no tree to go on with."""
    text = _decode(content, report)
    if text is None:
        return None
    builder = _Builder(report)
    try:
        tree = builder.document(iter(YAML(typ="safe", pure=True).parse(text)))
    except _UnusableError:
        return None
    except MarkedYAMLError as error:
        found_slip = slip(error, text)
        report.add("config-not-yaml", found_slip.mark, "", why=found_slip.why, suggestion=found_slip.advice)
        return None
    except YAMLError:
        report.add("config-not-yaml", TextPlace(1, 1), "", why="it holds characters that YAML does not allow")
        return None
    if tree is None or (isinstance(tree, Scalar) and tree.null):
        report.add("config-not-yaml", TextPlace(1, 1), "", why="the file is empty")
        return None
    if not isinstance(tree, YamlMap):
        report.add("config-wrong-type", tree.mark, "", found=found(tree), expected="`key: value` lines")
        return None
    return tree


def found(value: object) -> str:
    """The word for what stands somewhere, never the value itself."""
    if isinstance(value, YamlMap | dict):
        return "mapping"
    if isinstance(value, YamlList | list):
        return "list"
    if isinstance(value, Scalar) and not value.plain:
        return "quoted text"
    return "single value"


def _decode(content: bytes | str, report: ProblemReport) -> str | None:
    size = len(content) if isinstance(content, bytes) else len(content.encode("utf-8", "surrogatepass"))
    if size > SIZE_LIMIT:
        report.add("config-too-big", TextPlace(1, 1), "", limit=SIZE_LIMIT)
        return None
    if isinstance(content, bytes):
        try:
            text = content.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            line = content.count(b"\n", 0, error.start) + 1
            report.add("config-not-text", TextPlace(line, 1), "", why=f"byte {error.start} is not UTF-8")
            return None
    else:
        text = content.removeprefix("\ufeff")
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        report.add("config-not-text", TextPlace(line, 1), "", why="it holds zero bytes")
        return None
    return text


class _UnusableError(Exception):
    """Raised after a problem was recorded that leaves no tree to go on with."""


@dataclass(slots=True)
class _Builder:
    report: ProblemReport
    anchors: dict[str, tuple[Tree, int]] = field(default_factory=dict)
    building: set[str] = field(default_factory=set)
    values: int = 0

    def document(self, events: Iterator[Any]) -> Tree | None:
        tree: Tree | None = None
        documents = 0
        for event in events:
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._unusable("config-not-yaml", event, "", why="more than one document (`---`) in one file")
            elif isinstance(event, ScalarEvent | SequenceStartEvent | MappingStartEvent | AliasEvent):
                tree = self._value(event, events, "", 0)
        return tree

    def _value(self, event: Any, events: Iterator[Any], path: str, depth: int) -> Tree:
        if isinstance(event, AliasEvent):
            return self._alias(event, path)
        before = self.values
        self._count(event, path, 1)
        if depth > DEPTH_LIMIT:
            raise self._unusable("config-expansion", event, path, why=f"more than {DEPTH_LIMIT} levels")
        self._check_tag(event, path)
        if event.anchor is not None:
            self.building.add(event.anchor)
        tree: Tree
        if isinstance(event, ScalarEvent):
            tree = Scalar(event.value, event.style is None, _mark(event), path)
        elif isinstance(event, SequenceStartEvent):
            tree = self._list(event, events, path, depth)
        else:
            tree = self._map(event, events, path, depth)
        if event.anchor is not None:
            self.building.discard(event.anchor)
            self.anchors[event.anchor] = (tree, self.values - before)
        return tree

    def _list(self, start: Any, events: Iterator[Any], path: str, depth: int) -> YamlList:
        items = YamlList(_mark(start), path)
        for event in events:
            if isinstance(event, SequenceEndEvent):
                break
            items.append(self._value(event, events, f"{path}[{len(items)}]", depth + 1))
        return items

    def _map(self, start: Any, events: Iterator[Any], path: str, depth: int) -> YamlMap:
        entries = YamlMap(_mark(start), path, in_braces=bool(start.flow_style))
        merged: list[Tree] = []
        for event in events:
            if isinstance(event, MappingEndEvent):
                break
            if not isinstance(event, ScalarEvent):
                raise self._unusable("config-not-yaml", event, path, why="a key must be a word")
            key, mark = event.value, _mark(event)
            self._count(event, path, 1)
            key_path = entries.path_of(shown_key(key))
            value = self._value(next(events), events, key_path, depth + 1)
            if key == "<<" and event.style is None:
                merged.extend(value if isinstance(value, YamlList) else [value])
            elif key in entries:
                self.report.add(
                    "config-duplicate-key", mark, key_path, key=shown_key(key), first=entries.mark_of(key).line
                )
            else:
                entries[key] = value
                entries.key_marks[key] = mark
        for source in merged:
            if not isinstance(source, YamlMap):
                raise self._unusable("config-not-yaml", start, path, why="`<<` merges mappings only")
            for key, value in source.items():
                if key not in entries:
                    entries[key] = value
                    entries.key_marks[key] = source.mark_of(key)
        return entries

    def _alias(self, event: Any, path: str) -> Tree:
        if event.anchor in self.building:
            raise self._unusable("config-expansion", event, path, why="an alias inside of what it names")
        if event.anchor not in self.anchors:
            raise self._unusable(
                "config-not-yaml", event, path, why="a word that starts with `*` is an alias, and nothing has this name"
            )
        tree, size = self.anchors[event.anchor]
        self._count(event, path, size)
        return tree

    def _count(self, event: Any, path: str, size: int) -> None:
        self.values += size
        if self.values > VALUE_LIMIT:
            raise self._unusable("config-expansion", event, path, why=f"more than {VALUE_LIMIT} values")

    def _check_tag(self, event: Any, path: str) -> None:
        tag = getattr(event, "tag", None)
        if tag is not None and tag != "!" and not str(tag).startswith(_STANDARD_TAGS):
            raise self._unusable(
                "config-not-yaml", event, path, why="a word that starts with `!` is a tag; put the value in quotes"
            )

    def _unusable(self, kind: str, event: Any, path: str, *, why: str) -> _UnusableError:
        self.report.add(kind, _mark(event), path, why=why)
        return _UnusableError()


def _mark(event: Any) -> TextPlace:
    return TextPlace(event.start_mark.line + 1, event.start_mark.column + 1)


_QUOTES: Final = "put a value with special characters in quotes"
_SAME_COLUMN: Final = "lines of one section begin in the same column"


class Slip(NamedTuple):
    """Where it is, what it is, and what to do about it."""

    mark: TextPlace
    why: str
    advice: str


def slip(error: MarkedYAMLError, text: str) -> Slip:
    """The slip after an error of the parser."""
    at = _mark_of_problem(error.problem_mark) or _mark_of_problem(error.context_mark) or TextPlace(1, 1)
    begun = _mark_of_problem(error.context_mark) or at
    lines = text.splitlines()
    problem, context = error.problem or "", error.context or ""
    tab = _tab(lines, at)
    if tab is not None:
        return Slip(tab, "a tab stands here", "write blanks: YAML takes no tabs here")
    if "<block end>" in problem:
        return _outside(problem, at, begun)
    if problem.startswith("mapping values"):
        return _second_colon(lines, at)
    if problem.startswith("could not find expected ':'"):
        return _no_colon(lines, begun)
    if problem.startswith("sequence entries"):
        return Slip(at, "an entry of a list (`- `) stands after a key", "begin the list in the next line")
    if "quoted scalar" in context and "unexpected" in problem:
        return Slip(begun, "a quote is opened here and never closed", "close it, or write the value without quotes")
    if "escape" in problem:
        return Slip(at, "a backslash in double quotes begins an escape", "put the value in single quotes")
    if problem.startswith("expected ','"):
        return Slip(begun, "a bracket is opened here and not closed, or a comma is missing in it", "close the bracket")
    if "cannot start any token" in problem or context.startswith("while scanning a"):
        return Slip(at, "a value can't begin like this", _QUOTES)
    return Slip(at, "this does not follow YAML's grammar", _QUOTES)


def _mark_of_problem(mark: object) -> TextPlace | None:
    line, column = getattr(mark, "line", None), getattr(mark, "column", None)
    return TextPlace(line + 1, column + 1) if isinstance(line, int) and isinstance(column, int) else None


def _tab(lines: list[str], at: TextPlace) -> TextPlace | None:
    """Where a tab is in the indentation of the line, or is what the parser stumbled over."""
    line = _line(lines, at)
    indentation = line[: len(line) - len(line.lstrip())]
    if "\t" in indentation:
        return TextPlace(at.line, indentation.index("\t") + 1)
    return at if line[at.column - 1 : at.column] == "\t" else None


def _outside(problem: str, at: TextPlace, begun: TextPlace) -> Slip:
    """Something that is no part of the section before it."""
    if "<scalar>" in problem:
        return Slip(at, "something stands after a value in quotes", "put the whole value in one pair of quotes")
    if at.column == begun.column:
        why = f"an entry of a list (`- `) stands among the keys of the section that starts in line {begun.line}"
        return Slip(at, why, "a section has either keys or entries")
    return Slip(at, "the indentation of this line fits no section above it", _SAME_COLUMN)


def _second_colon(lines: list[str], at: TextPlace) -> Slip:
    line = _line(lines, at)
    if ": " in line[: at.column - 1]:
        return Slip(at, "a second `: ` stands in this line", _QUOTES)
    before = next((number for number in range(at.line - 1, 0, -1) if _content(lines[number - 1])), None)
    if before is not None and not _is_entry(lines[before - 1]):
        words = lines[before - 1]
        return _no_colon(lines, TextPlace(before, len(words) - len(words.lstrip()) + 1))
    first = TextPlace(at.line, len(line) - len(line.lstrip()) + 1)
    return Slip(first, "this line is indented below one that has a value already", _SAME_COLUMN)


def _no_colon(lines: list[str], begun: TextPlace) -> Slip:
    if ":" in _line(lines, begun):
        return Slip(begun, "no blank stands after the colon", "write `key: value`")
    return Slip(begun, "this line has no colon", "write `key: value`")


def _content(line: str) -> str:
    """What stands in a line besides a comment."""
    return line.partition(" #")[0].strip() if not line.lstrip().startswith("#") else ""


def _is_entry(line: str) -> bool:
    return ": " in line or _content(line).endswith(":")


def _line(lines: list[str], at: TextPlace) -> str:
    return lines[at.line - 1] if at.line <= len(lines) else ""
