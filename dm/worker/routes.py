"""The HTTP routes of the API, made from the declarations of verbs.

A verb's body becomes a pydantic model, its other parameters become parts of the address; what OpenAPI says of them is
what `dmctl --help` says.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter as Place
from inspect import Signature
from typing import Annotated, Any, Final, get_origin

from fastapi import FastAPI, Path, Query
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator

from dm.verbs.answers import AnswerShape
from dm.verbs.declaration import MISSING, Parameter, Verb
from dm.verbs.every import VERBS
from dm.worker.work import Answer, Work

_HALF: Final = re.compile("[\ud800-\udfff]")
_MODELS: Final[dict[str, type[BaseModel]]] = {}  # of answers and their parts, by name


class RequestBody(BaseModel):
    r"""What a request says: a JSON object without keys that nobody knows, whose content no message repeats.

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


def add_routes(app: FastAPI, work: Mapping[type[Verb], Work]) -> None:
    """Have the application answer all verbs with a route; raises KeyError for one without work."""
    for verb in VERBS:
        if not verb.path:
            continue
        app.add_api_route(
            verb.path,
            _endpoint(verb, work[verb]),
            methods=[verb.method],
            operation_id=verb.__name__,
            summary=verb.__doc__,
            tags=[verb.__module__.rpartition(".")[2]],
            response_model=None,
            responses={200: {"model": model_of(verb.answer)}},
            openapi_extra={"x-permission": verb.permission.value, **({"x-dmctl": verb.name} if verb.name else {})},
        )


def model_of(shape: AnswerShape) -> type[BaseModel]:
    """What an answer, or a part of one, has to be."""
    if shape.name not in _MODELS:
        fields: dict[str, Any] = {name: (_with_models(kind), ...) for name, kind in shape.keys.items()}
        fields |= {name: (_with_models(kind), None) for name, kind in shape.may.items()}
        config = ConfigDict(extra="allow" if shape.more else "forbid")
        _MODELS[shape.name] = create_model(shape.name, __config__=config, **fields)
    return _MODELS[shape.name]


def _with_models(kind: Any) -> Any:
    return list[model_of(kind[0])] if isinstance(kind, list) else kind  # type: ignore[misc]  # a value


def _endpoint(verb: type[Verb], do: Work) -> Callable[..., Answer]:
    """The function that FastAPI calls, with a signature to be read by it."""
    sent = [each for each in verb.parameters() if each.sent]
    places = [_in_path(each) for each in sent if each.name in verb.in_path()]
    others = [each for each in sent if each.name not in verb.in_path()]
    if verb.method == "GET":
        places += [_in_query(each) for each in others]
    elif others:
        fields: dict[str, Any] = {each.name: _field(each) for each in others}
        model = create_model(f"{verb.__name__}Body", __base__=RequestBody, **fields)
        places.append(Place("body", Place.KEYWORD_ONLY, annotation=model))

    def endpoint(body: RequestBody | None = None, **given: Any) -> Answer:
        values = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        return {"result": True, "msg": "", **do(verb(**values, **dict(body or ())))}

    endpoint.__signature__ = Signature(places)  # type: ignore[attr-defined]  # it is what FastAPI looks at
    return endpoint


def _in_path(parameter: Parameter) -> Place:
    kind: Any = Annotated[parameter.type, Path(description=_help(parameter))]
    return Place(parameter.name, Place.KEYWORD_ONLY, annotation=kind)


def _in_query(parameter: Parameter) -> Place:
    many = get_origin(parameter.type) is tuple
    kind: Any = Annotated[list[str] if many else parameter.type, Query(description=_help(parameter))]
    default = Place.empty if parameter.default is MISSING else list(parameter.default) if many else parameter.default
    return Place(parameter.name, Place.KEYWORD_ONLY, annotation=kind, default=default)


def _field(parameter: Parameter) -> tuple[Any, Any]:
    """A field of a body: type, and default with what holds for it."""
    default = ... if parameter.default is MISSING else parameter.default
    least = None if parameter.word is None else parameter.word.least
    return parameter.type, Field(default, ge=least, description=_help(parameter))


def _help(parameter: Parameter) -> str | None:
    return None if parameter.word is None else parameter.word.help
