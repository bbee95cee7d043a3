"""The base of every model of a file: DM's key names, strictness, and problems instead of exceptions.

A key is known (a field; some have no effect in this version, which a warning says), deprecated (accepted, without
effect, with a warning), renamed (accepted under its old name, with a warning), refused (DM has it, this program does
not: the message names the alternative), or unknown. DM prints all keys of its files, so an empty value, or the one that
asks for nothing, says as little as no key: it is accepted without a word, whatever the key.

What pydantic finds wrong with values carries the tree node it looked at, so that every problem has its place; what
spans several fields of a section is said by `check`. All of it ends in one Report, in one run: a section with a wrong
value is checked as far as its other values reach, and is a section to those around it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Self, TypeVar

from pydantic import (
    BaseModel,
    ConfigDict,
    ModelWrapValidatorHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    model_validator,
)

from dm.config.document import Scalar, YamlList, YamlMap, found, is_tree, shown_key
from dm.config.problem import Problem, ProblemReport, TextPlace, closest, did_you_mean, one_of_text
from dm.config.scalar import Text
from dm.errors import CATALOGUE
from dm.unit import JSON

_ZERO = ("false", "0")  # Go's values of what nobody has set
_NAMES = {
    "endpoint": "from",
    "schema_name": "schema",
    "collation_compatible": "collation_compatible",
    "mariadb2tidb": "mariadb2tidb",
}


def _key_of(attribute: str) -> str:
    return _NAMES.get(attribute, attribute.replace("_", "-"))


@dataclass(slots=True)
class LoadContext:
    """What reading a file needs besides its text."""

    report: ProblemReport
    environ: Mapping[str, str] = field(default_factory=lambda: os.environ)
    directory: Path = field(default_factory=Path)
    key_file: Path | None = None  # holds the key of passwords that DM has encrypted; it need not be there


@dataclass(frozen=True, slots=True)
class Issue:
    """What `check` found: a kind of the catalogue, the key it is about, and the details."""

    kind: str
    key: str
    expected: str = ""
    suggestion: str = ""
    warning: bool = False
    details: Mapping[str, object] = field(default_factory=dict)


class Transferred(BaseModel):
    """What another process gets as JSON."""

    def to_wire(self) -> JSON:
        """Everything including passwords: for pipes and files that only this user can read."""
        wire: JSON = self.model_dump(mode="json", context={"reveal": True})
        return wire

    @classmethod
    def from_wire(cls, wire: JSON) -> Self:
        """The inverse of `to_wire`."""
        return cls.model_validate(wire)


class Section(BaseModel):
    """One mapping of a file."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=_key_of, populate_by_name=True, hide_input_in_errors=True
    )

    place: ClassVar[str] = ""  # where the section stands, for who wrote one of its keys elsewhere
    deprecated: ClassVar[Mapping[str, str]] = {}  # key -> what to do instead
    without_effect: ClassVar[Mapping[str, str]] = {}  # key of a field -> what is the case instead
    idle_values: ClassVar[
        Mapping[str, tuple[str, ...]]
    ] = {}  # values of such a key, or a refused one, that ask nothing
    unset_values: ClassVar[
        Mapping[str, tuple[str, ...]]
    ] = {}  # key of a field -> what DM's files write for the default
    renamed: ClassVar[Mapping[str, str]] = {}  # old key -> today's key
    refused: ClassVar[Mapping[str, str]] = {}  # key -> the alternative
    refused_kinds: ClassVar[Mapping[str, str]] = {}  # refused key -> kind, where DM has a code of its own

    @classmethod
    def file_keys(cls) -> list[str]:
        """The keys a file may hold here."""
        return [info.alias or name for name, info in cls.model_fields.items()]

    @classmethod
    def prepare(cls, data: YamlMap, context: LoadContext) -> None:
        """Hook for sections whose keys become fields in another form; changes `data`."""

    def check(self) -> Iterator[Issue]:
        """What is wrong between the fields of this section."""
        return iter(())

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, data: Any, handler: ModelWrapValidatorHandler[Self], info: ValidationInfo) -> Self:
        if not isinstance(data, YamlMap):
            return handler(data)
        context = info.context
        if not isinstance(context, LoadContext):
            raise TypeError("a tree of a file needs a LoadContext")
        data = cls._known(data, context.report)
        cls.prepare(data, context)
        for key, values in cls.unset_values.items():
            value = data.get(key)
            if isinstance(value, Scalar) and value.text.lower() in values:
                del data[key]
        cls._warn_of_no_effect(data, context.report)
        try:
            section = handler(data)
        except ValidationError as error:
            section = cls._sound_part(error, data, context)
        for issue in section._issues(context.report):
            context.report.add(
                issue.kind,
                _value_mark(data, issue.key),
                data.path_of(issue.key) if issue.key else data.path,
                expected=issue.expected,
                suggestion=issue.suggestion,
                warning=issue.warning,
                **issue.details,
            )
        return section

    def _issues(self, report: ProblemReport) -> Iterator[Issue]:
        """What `check` finds, up to where it needs a key that has a problem of its own, here or further in."""
        try:
            yield from self.check()
        except AttributeError:
            if not report.problems:
                raise

    @classmethod
    def _sound_part(cls, error: ValidationError, data: YamlMap, context: LoadContext) -> Self:
        """The section without the keys that have a problem, which are recorded: to ask for one is an error."""
        wrong = set()
        for entry in error.errors(include_url=False):
            _record(context.report, entry, data)
            wrong.add(entry["loc"][0])
        sound: dict[str, Any] = {}
        for name, info in cls.model_fields.items():
            key = info.alias or name
            if key in data and key not in wrong:
                adapter: TypeAdapter[Any] = TypeAdapter(info.rebuild_annotation())
                sound[name] = adapter.validate_python(data[key], context=context)
        section = cls.model_construct(**sound)
        for name, info in cls.model_fields.items():
            if (info.alias or name) in wrong:
                section.__dict__.pop(name, None)
        return section

    @classmethod
    def _warn_of_no_effect(cls, data: YamlMap, report: ProblemReport) -> None:
        for key, why in cls.without_effect.items():
            if key in data and not cls._idle(key, data[key]):
                report.add("config-no-effect", data.mark_of(key), data.path_of(key), key=key, why=why, warning=True)

    @classmethod
    def _idle(cls, key: str, value: object) -> bool:
        """Whether a value asks for nothing: an empty one, or one of `idle_values`."""
        if isinstance(value, Scalar):
            return value.null or value.text.lower() in ("", *cls.idle_values.get(key, ()))
        return isinstance(value, YamlMap | YamlList) and not value

    @classmethod
    def _known(cls, data: YamlMap, report: ProblemReport) -> YamlMap:
        fields = cls.file_keys()
        kept = data.subset(set(fields))
        for key in data:
            mark, path = data.mark_of(key), data.path_of(shown_key(key))
            foreign = key in cls.refused or key in cls.renamed or key in cls.deprecated
            if foreign and cls._idle(key, data[key]):
                continue
            if key in cls.refused:
                kind = cls.refused_kinds.get(key, "config-refused-key")
                report.add(kind, mark, path, key=key, suggestion=cls.refused[key])
            elif key in cls.renamed:
                name = cls.renamed[key]
                report.add("config-deprecated-key", mark, path, key=key, suggestion=f"use `{name}`", warning=True)
                if name not in kept:
                    kept[name] = data[key]
                    kept.key_marks[name] = mark
            elif key in cls.deprecated:
                if not isinstance(data[key], Scalar) or data[key].text.lower() not in _ZERO:
                    advice = cls.deprecated[key]
                    report.add("config-deprecated-key", mark, path, key=key, suggestion=advice, warning=True)
            elif key not in kept:
                if meant := closest(key, fields):
                    report.misspelt.add(data.path_of(meant))
                suggestion = did_you_mean(key, fields) or _home(key)
                report.add(
                    "config-unknown-key",
                    mark,
                    path,
                    key=shown_key(key),
                    expected="" if suggestion else f"one of {one_of_text(sorted(fields))}",
                    suggestion=suggestion,
                )
        for key in [key for key, value in kept.items() if isinstance(value, Scalar) and value.null]:
            del kept[key]
        return kept


SectionT = TypeVar("SectionT", bound=Section)


class NamedRule(Section):
    """A rule that stands under its name in the task file."""

    name: Text = ""  # how messages name the rule; not a key of the file

    @classmethod
    def file_keys(cls) -> list[str]:
        """Without the name, which is the key the rule stands under."""
        return [key for key in super().file_keys() if key != "name"]


def read_section(model: type[SectionT], tree: YamlMap, context: LoadContext) -> SectionT | None:
    """Validate a tree; None when problems were recorded that leave no section."""
    try:
        return model.model_validate(tree, context=context)
    except ValidationError as error:
        for entry in error.errors(include_url=False):
            _record(context.report, entry, tree)
        return None


def _home(key: str) -> str:
    places = sorted(
        {section.place for section in Section.__subclasses__() if section.place and key in section.file_keys()}
    )
    return f"it belongs {' or '.join(places)}" if places else ""


def _record(report: ProblemReport, entry: Any, root: YamlMap) -> None:
    node = entry["input"]
    mark, path = (node.mark, node.path) if is_tree(node) else (root.mark, root.path)
    ctx = entry.get("ctx", {})
    kind = entry["type"]
    if kind in CATALOGUE:
        report.add(kind, mark, path, expected=ctx["expected"], suggestion=ctx["suggestion"], **ctx["details"])
    elif kind == "missing":
        key = str(entry["loc"][-1])
        place = f"{path}.{key}" if path else key
        if place not in report.misspelt:
            name = "config-no-target" if key == "target-database" else "config-missing-key"
            report.add(name, mark, place, key=key)
    elif kind in ("list_type", "tuple_type"):
        hint = "write it as a list: `[a, b]`" if isinstance(node, Scalar) else ""
        report.add("config-wrong-type", mark, path, found=found(node), expected="a list", suggestion=hint)
    elif kind in ("model_type", "model_attributes_type", "dict_type", "mapping_type"):
        report.add("config-wrong-type", mark, path, found=found(node), expected="a mapping (`key: value` lines)")
    else:
        report.add("config-wrong-type", mark, path, found=found(node), expected=str(kind).replace("_", " "))


def _value_mark(data: YamlMap, key: str) -> TextPlace:
    value = data.get(key)
    return value.mark if isinstance(value, Scalar) else data.mark_of(key)


def warnings_of(context: LoadContext) -> tuple[Problem, ...]:
    """The warnings recorded so far, in the order of the file; all deprecated keys share one."""
    return tuple(sorted(context.report.gathered_warnings(), key=lambda problem: (problem.line, problem.column)))
