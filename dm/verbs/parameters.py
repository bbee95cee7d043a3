"""Parameters that several verbs have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from dm.verbs.declaration import FILE, TASK, argument, option


@dataclass(frozen=True, slots=True)
class ConfigFile:
    """A source or task file as the user gave it, with what it refers to outside itself."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {"extra": "forbid", "hide_input_in_errors": True}

    name: str  # as the user spelled the path, for messages
    text: str
    directory: str  # relative paths in the file start here
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)  # values of the ${NAMES} in the text


Task = Annotated[str, argument("the task's name, or its file", TASK)]
Tasks = Annotated[str, argument("the task's name, or its file; with -s alone, all tasks of these", TASK)]
Sources = Annotated[tuple[str, ...], option("--source -s", "only this source; may be repeated")]
TaskFile = Annotated[ConfigFile, argument("the task file", FILE)]
