r"""What a request says, as JSON: the models of the API inherit from here.

JSON can say the half of a surrogate pair (`"\ud800"`), which no encoding can write: not into a file, not into sqlite,
not into an answer. So a text with one is refused here, before anything is done with it.
"""

from __future__ import annotations

import re
from typing import Final

from pydantic import BaseModel, ConfigDict, model_validator

_HALF: Final = re.compile("[\ud800-\udfff]")


class RequestBody(BaseModel):
    """A JSON object without keys that nobody knows; what it says is never repeated in an error."""

    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)

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
