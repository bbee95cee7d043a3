"""The control API: verbs as HTTP, answers as DM's JSON.

It is reached through a Unix socket that only the user can open, and, where asked for, through a loopback port. That
port is open to every user and program of this machine, hence the token (dm/worker/token.py). Browsers are among those
programs, hence two rules more: a request must name a host of ours (else a web page could reach it through a DNS name
that points to 127.0.0.1), and one that changes something must come as JSON (which a page of another origin can't send
without asking first).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import cast

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.declaration import Verb
from dm.worker.connection import LimitedBody
from dm.worker.metrics import CONTENT_TYPE, Metrics
from dm.worker.routes import add_routes
from dm.worker.token import METRICS_PATH
from dm.worker.verbs.tasks import PrecheckFailed
from dm.worker.version import installed_version
from dm.worker.work import Work

HOST = "dm-worker"  # what the client calls the host behind the Unix socket


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
