"""What a request says: the base of all models of bodies."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, model_validator

_HALF: Final = re.compile("[\ud800-\udfff]")


class RequestBody(BaseModel):
    r"""A JSON object without keys that nobody knows, whose content no message repeats.

    JSON can say the half of a surrogate pair (`"\ud800"`), which no encoding can write: not into a file, not into
    sqlite, not into an answer. So a text with one is refused here, before anything is done with it.
    """

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        return iter(())  # it may hold a password

    @model_validator(mode="before")
    @classmethod
    def _texts_can_be_written(cls, said: object) -> object:
        waiting = [said]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str) and _HALF.search(one):
                raise ValueError("a text holds the half of a surrogate pair, which is no character")
            if isinstance(one, dict):
                waiting += [*one, *one.values()]
            elif isinstance(one, list):
                waiting += one
        return said
