"""The control API: verbs as HTTP, answers as DM's JSON.

It is reached through a Unix socket that only the user can open, and, where asked for, through a loopback port. That
port is open to every user and program of this machine, hence the token (dm/worker/token.py). Browsers are among those
programs, hence two rules more: a request must name a host of ours (else a web page could reach it through a DNS name
that points to 127.0.0.1), and one that changes something must come as JSON (which a page of another origin can't send
without asking first).

The HTTP routes of the API, made from the declarations of verbs.

A verb's body becomes a pydantic model, its other parameters become parts of the address; what OpenAPI says of them is
what `dmctl --help` says.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterator, Mapping
from inspect import Parameter as Place
from inspect import Signature
from typing import Annotated, Any, Final, cast, get_origin

import structlog
from fastapi import FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, create_model, model_validator
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.answers import AnswerShape
from dm.verbs.declaration import MISSING, Parameter, Verb
from dm.verbs.every import VERBS
from dm.worker.connection import LimitedBody
from dm.worker.home import installed_version
from dm.worker.metrics import CONTENT_TYPE, Metrics
from dm.worker.token import METRICS_PATH
from dm.worker.verbs.tasks import PrecheckFailed
from dm.worker.work import Answer, Work

HOST = "dm-worker"  # what the client calls the host at the other end of the Unix socket


def create_app(work: Mapping[type[Verb], Work], metrics: Metrics) -> FastAPI:
    """The application that answers the verbs."""
    app = _application()
    add_routes(app, work)
    _metrics(app, metrics)
    return app


def create_metrics_app(metrics: Metrics) -> FastAPI:
    """The application of a port for Prometheus: it shows everything and changes nothing."""
    app = _application()
    _metrics(app, metrics)
    return app


def _application() -> FastAPI:
    """What every request meets, whatever it asks for."""
    app = FastAPI(title="dm-worker", version=installed_version(), docs_url=None, redoc_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost", "127.0.0.1"])
    log = structlog.get_logger()

    @app.middleware("http")
    async def guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if request.method not in ("GET", "HEAD") and kind != "application/json":
            return JSONResponse({"result": False, "msg": "requests must be application/json"}, 415)
        log.debug("request", method=request.method, path=request.url.path)
        try:
            return await call_next(request)
        except Exception as defect:
            log.exception("request failed", path=request.url.path)
            error = DMError("internal-error", what=f"{request.url.path} ended with {type(defect).__name__}")
            return JSONResponse({"result": False, "msg": str(error), "error": cast("JSON", error.report())}, 500)

    app.add_middleware(LimitedBody)  # outermost, since the others may read the body

    @app.exception_handler(DMError)
    async def refused(_request: Request, error: DMError) -> JSONResponse:
        answer: dict[str, JSON] = {"result": False, "msg": str(error), "error": cast("JSON", error.report())}
        if isinstance(error, PrecheckFailed):
            answer["checkResult"] = dict(error.results)
        return JSONResponse(answer, 400)

    @app.exception_handler(RequestValidationError)
    async def malformed(_request: Request, error: RequestValidationError) -> JSONResponse:
        # Places and kinds only: the input may hold a password.
        problems = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()]
        return JSONResponse({"result": False, "msg": "; ".join(problems)}, 422)

    @app.exception_handler(HTTPException)
    async def unknown(_request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"result": False, "msg": str(error.detail)}, error.status_code)

    return app


def _metrics(app: FastAPI, metrics: Metrics) -> None:
    @app.get(METRICS_PATH, response_model=None)
    def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)


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
