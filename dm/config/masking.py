"""A source or task file as it may be shown: the user's own text, comments and all, without its secrets.

The text is masked where the parser says that a secret stands, not by a pattern over lines: a password may be quoted,
folded over lines, or an anchor that another key refers to. `${VARIABLE}` and `password-file` stay, since they are names
of places where a secret is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.events import AliasEvent, MappingEndEvent, MappingStartEvent, ScalarEvent, SequenceEndEvent

from dm.config.object_storage import is_object_storage, without_keys
from dm.config.secret import MASK, referenced_variables

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
