"""The control API: verbs as HTTP, answers as DM's JSON.

It is reached through a Unix socket that only the user can open, and, where asked for, through a port. A port is open
to every user and program of this machine, or of a network, hence tokens and permissions (dm/worker/access.py). Browsers
are among those programs, hence three rules more: a request must name a host of ours (else a web page could reach it
through a DNS name that points to 127.0.0.1), it must not come from a page of another origin, and one that changes
something must come as JSON (which such a page can't send without asking first, in browsers that name no origin too).
With TLS the browser itself compares the host's name with the certificate.

Each route says which permission it needs, and what changes something is in the audit log (dm/worker/audit.py).

The HTTP routes of the API are made from the declarations of verbs; those of DM's OpenAPI are in dm/worker/dm_openapi.

A verb's body becomes a pydantic model, its other parameters become parts of the address; what OpenAPI says of them is
what `dmctl --help` says.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from inspect import Parameter as Place
from inspect import Signature
from typing import Annotated, Any, Final, Literal, cast, get_origin

import structlog
from fastapi import Depends, FastAPI, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel, ConfigDict, Field, create_model
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.types import Receive, Scope, Send

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.declaration import MISSING, AnswerShape, Parameter, Verb
from dm.verbs.every import VERBS
from dm.worker.access import MEMBER, METRICS_PATH, demanding, requester_of
from dm.worker.audit import AuditLog
from dm.worker.connection import LimitedBody
from dm.worker.dm_openapi.operation import OpenAPIRequests, add_operations
from dm.worker.installed import installed_version
from dm.worker.metrics import CONTENT_TYPE, Metrics
from dm.worker.origin import other_origin
from dm.worker.refusal import PATHS_OF_DM, malformed, refusal
from dm.worker.request_body import RequestBody
from dm.worker.verb_work import Answer, Work
from dm.worker.verbs.tasks import PrecheckFailed

_CODE: Final = "dm.code"  # in a request's scope: the code of the error that answers it
HOST = "dm-worker"  # what the client calls the host at the other end of the Unix socket
HOST_NAMES: Final = (HOST, "localhost", "127.0.0.1", "[::1]")


def create_app(
    work: Mapping[type[Verb], Work],
    openapi: Sequence[OpenAPIRequests],
    metrics: Metrics,
    audit: AuditLog,
    of_members: Mapping[type[Verb], Work] | None = None,
) -> FastAPI:
    """The application that answers the verbs, and requests of DM's OpenAPI.

    `of_members` does what other members of a cluster ask: the part of this one.
    """
    app = _application(audit)
    add_routes(app, work, audit, of_members)
    add_operations(app, openapi, audit)
    _metrics(app, metrics)
    return app


def create_metrics_app(metrics: Metrics) -> FastAPI:
    """The application of a port for Prometheus: it shows everything and changes nothing."""
    app = _application(None)
    _metrics(app, metrics)
    return app


class HostDemanded(TrustedHostMiddleware):
    """Answers requests that name a host of ours, and those whose client has compared it with our certificate."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("scheme") == "https":
            await self.app(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def _application(audit: AuditLog | None) -> FastAPI:
    """What every request meets, whatever it asks for."""
    # An address that ends in an empty name is that of nothing: not of the list of all names, to which it would be sent.
    app = FastAPI(title="dm-worker", version=installed_version(), docs_url=None, redoc_url=None, redirect_slashes=False)
    app.add_middleware(HostDemanded, allowed_hosts=HOST_NAMES)
    log = structlog.get_logger()

    @app.middleware("http")
    async def guarded(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        path, origin = request.scope["path"], other_origin(request.headers)
        if origin is not None:
            return refusal(path, DMError("other-origin", origin=origin), 403)
        if request.method not in ("GET", "HEAD") and not _is_json(request):
            return malformed(path, "requests must be application/json", 415)
        log.debug("request", method=request.method, path=request.url.path)
        try:
            response = await call_next(request)
        except Exception as defect:
            log.exception("request failed", path=request.url.path)
            error = DMError("internal-error", what=f"{request.url.path} ended with {type(defect).__name__}")
            response = _refusal(request, error, 500)
        if audit is not None:
            audit.answered(request.scope, response.status_code, request.scope.get(_CODE))
        return response

    app.add_middleware(LimitedBody)  # outermost, since the others may read the body

    @app.exception_handler(DMError)
    async def refused(request: Request, error: DMError) -> JSONResponse:
        return _refusal(request, error, 403 if error.name == "permission-missing" else 400)

    @app.exception_handler(RequestValidationError)
    async def not_understood(request: Request, error: RequestValidationError) -> JSONResponse:
        # Places and kinds only: the input may hold a password.
        problems = [f"{'.'.join(str(part) for part in one['loc'])}: {one['msg']}" for one in error.errors()]
        return malformed(request.scope["path"], "; ".join(problems), 422)

    @app.exception_handler(HTTPException)
    async def unknown(request: Request, error: HTTPException) -> JSONResponse:
        return malformed(request.scope["path"], str(error.detail), error.status_code)

    return app


def _is_json(request: Request) -> bool:
    """Whether it has a body of JSON, or is a request of DM's OpenAPI without a body."""
    kind = request.headers.get("content-type")
    if kind is not None:
        return kind.partition(";")[0].strip() == "application/json"
    without_body = request.headers.get("content-length", "0") == "0" and "transfer-encoding" not in request.headers
    return without_body and request.scope["path"].startswith(PATHS_OF_DM)


def _refusal(request: Request, error: DMError, status: int) -> JSONResponse:
    request.scope[_CODE] = error.code
    if isinstance(error, PrecheckFailed) and not request.scope["path"].startswith(PATHS_OF_DM):
        answer: dict[str, JSON] = {"result": False, "msg": str(error), "error": cast("JSON", error.report())}
        return JSONResponse({**answer, "checkResult": dict(error.results)}, status)
    return refusal(request.scope["path"], error, status)


def _metrics(app: FastAPI, metrics: Metrics) -> None:
    @app.get(METRICS_PATH, response_model=None)
    def scrape() -> Response:
        return Response(metrics.text(), media_type=CONTENT_TYPE)


_MODELS: Final[dict[str, type[BaseModel]]] = {}  # of answers and their parts, by name


class Refused(BaseModel):
    """The answer to a request that can't be done; without `error` where it is none that can be understood."""

    result: Literal[False]
    msg: str
    error: dict[str, Any] | None = None
    checkResult: dict[str, Any] | None = None  # noqa: N815  DM's name


def add_routes(
    app: FastAPI,
    work: Mapping[type[Verb], Work],
    audit: AuditLog,
    of_members: Mapping[type[Verb], Work] | None = None,
) -> None:
    """Have the application answer all verbs with a route; raises KeyError for one without work."""
    for verb in VERBS:
        if not verb.path:
            continue
        app.add_api_route(
            verb.path,
            _endpoint(verb, work[verb], (of_members or work)[verb]),
            methods=[verb.method],
            operation_id=verb.__name__,
            summary=verb.__doc__,
            tags=[verb.__module__.rpartition(".")[2]],
            response_model=None,
            dependencies=[Depends(_allowed(verb, audit))],
            responses={200: {"model": model_of(verb.answer)}, "4XX": {"model": Refused}},
            openapi_extra={
                "x-permission": verb.permission.value,
                **({"x-change": [*verb.changing]} if verb.changing else {}),
                **({"x-dmctl": verb.name} if verb.name else {}),
            },
        )


def _allowed(verb: type[Verb], audit: AuditLog) -> Callable[[Request], None]:
    """What comes before the work of a verb: a line in the audit log, and the permission."""
    demand = demanding(verb.permission)

    def allowed(request: Request) -> None:
        audit.asked(request, verb.name or verb.__name__, verb.permission)
        demand(request)

    return allowed


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


def _endpoint(verb: type[Verb], do: Work, of_member: Work) -> Callable[..., Answer]:
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

    def endpoint(request: Request, body: RequestBody | None = None, **given: Any) -> Answer:
        values = {name: tuple(one) if isinstance(one, list) else one for name, one in given.items()}
        asked = verb(**values, **dict(body or ()))
        demanding(asked.needed())(request)
        work = of_member if requester_of(request.scope) is MEMBER else do
        return {"result": True, "msg": "", **work(asked)}

    places.append(Place("request", Place.KEYWORD_ONLY, annotation=Request))
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
