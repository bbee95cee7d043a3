"""The page's addresses, and what each request there meets.

Every answer comes from the same origin and loads nothing from another one; the browser is told so
(`Content-Security-Policy` without inline code). Only the login, with its stylesheet and icon, is answered without a
session, and a session does not count at the API, which takes a token alone. Looking needs a session, which each
permission has; a form needs its verb's permission, and the secret that this session's pages bring.

What the page shows is as the units have said it (dm/worker/page/overview.py): looking asks no database server. The
exception is the list of rows that a validator has found wrong, which is at the target.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, quote, urlencode

import structlog
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from dm.clock import Clock
from dm.errors import DMError
from dm.text import visible
from dm.worker.access import CERTIFICATE, Requester, Tokens, bears, requester_of
from dm.worker.api import HOST_NAMES, HostDemanded
from dm.worker.audit import AuditLog
from dm.worker.connection import LimitedBody
from dm.worker.installed import installed_version
from dm.worker.operations import Operations
from dm.worker.origin import other_origin
from dm.worker.page.forms import RELAY_FORMS, SETTINGS_FORM, TASK_FORMS, Deeds, Form
from dm.worker.page.sessions import (
    PageSession,
    Sessions,
    brings_form_token,
    proof_of_token,
    set_cookie,
)
from dm.worker.page.views import Views

ROOT: Final = "/page"
_HERE: Final = Path(__file__).parent
_LOGIN: Final = f"{ROOT}/login"
_FILES: Final = {"style.css": "text/css", "icon.svg": "image/svg+xml", "script.js": "text/javascript"}
_OPEN: Final = frozenset({_LOGIN, f"{ROOT}/style.css", f"{ROOT}/icon.svg"})  # to everybody
_SESSION: Final = "dm.session"  # in a request's scope
_TOLD: Final = "told"  # names a notice in an address
_HEADERS: Final = {
    "content-security-policy": "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class PageBesideApi:
    """An application of a port: the page below its own addresses, the API elsewhere."""

    def __init__(self, api: ASGIApp, page: ASGIApp) -> None:
        self._api = api
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on."""
        path = scope.get("path", "")
        ours = path in ("/", ROOT) or path.startswith(f"{ROOT}/")
        await (self._page if ours else self._api)(scope, receive, send)


def create_page(operations: Operations, tokens: Tokens, audit: AuditLog, clock: Clock) -> ASGIApp:
    """The application of the page."""
    page = Page(Views(operations, clock), Deeds(operations.routed, audit), Sessions(tokens, clock), tokens)
    return Starlette(
        routes=page.routes(),
        middleware=[
            Middleware(LimitedBody),
            Middleware(HostDemanded, allowed_hosts=HOST_NAMES),
            Middleware(_Protected),
            Middleware(_SessionDemanded, page.sessions),
        ],
        exception_handlers=page.handlers(),
    )


class _Protected:
    """Adds to each answer what the browser is to hold it to."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {name.encode(): value.encode() for name, value in _HEADERS.items()}
                others = [(name, value) for name, value in message["headers"] if name not in own]
                message = {**message, "headers": [*others, *own.items()]}
            await send(message)

        await self._app(scope, receive, answer)


class _SessionDemanded:
    """Only the login is for everybody."""

    def __init__(self, app: ASGIApp, sessions: Sessions) -> None:
        self._app = app
        self._sessions = sessions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        request = Request(scope)
        found = self._sessions.of(request)
        if found is not None:
            scope[_SESSION], requester = found
            bears(scope, requester)
        elif scope["path"] not in _OPEN:
            await self._to_login(request)(scope, receive, send)
            return
        await self._app(scope, receive, send)

    def _to_login(self, request: Request) -> Response:
        if request.method not in ("GET", "HEAD"):
            return HTMLResponse("log in first: your session is over", 401)
        wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        query = "" if wanted in ("/", ROOT) else f"?{urlencode({'next': wanted})}"
        return RedirectResponse(f"{_LOGIN}{query}", 303)


Handler = Callable[[Request], Awaitable[Response]]


class Page:
    """Answers requests; what blocks does so in a thread of the pool."""

    def __init__(self, views: Views, deeds: Deeds, sessions: Sessions, tokens: Tokens) -> None:
        self.sessions = sessions
        self._views = views
        self._deeds = deeds
        self._tokens = tokens
        self._log = structlog.get_logger()
        self._templates = Environment(
            loader=FileSystemLoader(_HERE / "templates"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            finalize=lambda value: visible(value) if type(value) is str else value,
        )
        self._templates.filters["segment"] = lambda name: quote(name, safe="")
        self._templates.filters["pieces"] = _pieces

    def routes(self) -> list[Route]:
        """All addresses."""
        shown: Mapping[str, tuple[str, Callable[[Request], Mapping[str, Any]]]] = {
            "/": ("overview.html", lambda _: self._views.overview()),
            "/tasks/{task}": ("task.html", lambda request: self._views.task(request.path_params["task"])),
            "/tasks/{task}/errors": ("errors.html", lambda request: self._views.errors(request.path_params["task"])),
            "/sources": ("sources.html", lambda _: self._views.sources()),
            "/ddl": ("ddl.html", lambda _: self._views.ddl()),
            "/timeline": ("timeline.html", lambda request: self._views.timeline(request.query_params.get("task", ""))),
            "/logs": ("logs.html", lambda request: self._views.logs(request.query_params)),
            "/files/task/{task}": ("file.html", lambda request: self._views.file("task", request.path_params["task"])),
            "/files/source/{source}": (
                "file.html",
                lambda request: self._views.file("source", request.path_params["source"]),
            ),
            "/settings": ("settings.html", lambda _: self._views.settings()),
        }
        asked = {
            "/tasks/{task}/do/{form}": TASK_FORMS,
            "/sources/{source}/do/{form}": RELAY_FORMS,
            "/settings/do/{form}": {"log-level": SETTINGS_FORM},
        }
        return [
            *(Route(path, self._to_overview) for path in ("/", ROOT)),
            Route(_LOGIN, self._login_page),
            Route(_LOGIN, self._login, methods=["POST"]),
            Route(f"{ROOT}/logout", self._logout, methods=["POST"]),
            *(Route(f"{ROOT}/{name}", self._file(name, kind)) for name, kind in _FILES.items()),
            *(Route(f"{ROOT}{path}", self._guarded(self._shown(*of))) for path, of in shown.items()),
            *(Route(f"{ROOT}{path}", self._guarded(self._question(forms))) for path, forms in asked.items()),
            *(
                Route(f"{ROOT}{path}", self._guarded(self._deed(forms)), methods=["POST"])
                for path, forms in asked.items()
            ),
        ]

    # pages

    def _shown(self, template: str, view: Callable[[Request], Mapping[str, Any]]) -> Handler:
        async def answer(request: Request) -> Response:
            return await run_in_threadpool(lambda: self._render(request, template, view(request)))

        return answer

    def _render(self, request: Request, template: str, values: Mapping[str, Any], status: int = 200) -> Response:
        session: PageSession | None = request.scope.get(_SESSION)
        requester = requester_of(request.scope)
        text = self._templates.get_template(template).render(
            root=ROOT,
            path=request.url.path,
            form_token="" if session is None else session.form_token,
            notice=None if session is None else session.taken_notice(request.query_params.get(_TOLD, "")),
            requester=requester,
            version=installed_version(),
            **values,
        )
        return HTMLResponse(text, status)

    async def _to_overview(self, _request: Request) -> Response:
        return RedirectResponse(f"{ROOT}/", 303)

    def _file(self, name: str, kind: str) -> Handler:
        async def answer(_request: Request) -> Response:
            return FileResponse(_HERE / "static" / name, media_type=kind)

        return answer

    # login

    async def _login_page(self, request: Request) -> Response:
        return self._render(request, "login.html", self._login_values(request, _next(request.query_params.get("next"))))

    def _login_values(self, request: Request, wanted: str, problem: str = "") -> Mapping[str, Any]:
        shown = self._by_certificate(request)
        return {"next": wanted, "problem": problem, "certificate": None if shown is None else shown[1].name}

    def _by_certificate(self, request: Request) -> tuple[str, Requester] | None:
        name = (request.scope.get("state") or {}).get(CERTIFICATE)
        requester = None if name is None else self._tokens.bearer_of(f"certificate:{name}")
        return None if requester is None else (f"certificate:{name}", requester)

    async def _login(self, request: Request) -> Response:
        form = await _form_of(request)
        if other_origin(request.headers) is not None:
            return HTMLResponse("this request was sent by a page of another origin", 403)
        wanted, proof = _next(form.get("next")), proof_of_token(form.get("token", "").strip())
        requester = self._tokens.bearer_of(proof)
        shown = self._by_certificate(request)
        if requester is None and not form.get("token") and shown is not None:
            proof, requester = shown
        if requester is None:
            self._log.warning("a login at the page was refused", address=_address(request))
            values = self._login_values(request, wanted, "There is no such token, or it was revoked.")
            return self._render(request, "login.html", values, 401)
        self._log.info("a login at the page", who=requester.name, address=_address(request))
        answer = RedirectResponse(wanted, 303)
        set_cookie(request, answer, self.sessions.begin(proof))
        return answer

    async def _logout(self, request: Request) -> Response:
        refused = self._is_foreign(request, await _form_of(request))
        if refused is not None:
            return refused
        self.sessions.end(request)
        answer = RedirectResponse(_LOGIN, 303)
        set_cookie(request, answer, "")
        return answer

    # verbs

    def _question(self, forms: Mapping[str, Form]) -> Handler:
        async def answer(request: Request) -> Response:
            form = _found(forms, request)
            given = {name: value for name, value in request.query_params.items() if value}
            values = form.filled({**given, **request.path_params})
            requester = requester_of(request.scope)
            allowed = requester is not None and requester.may(form.permission)
            shown = {"form": form, "command": form.command(values), "values": values, "allowed": allowed}
            return self._render(request, "question.html", {**shown, "back": _back(request)})

        return answer

    def _deed(self, forms: Mapping[str, Form]) -> Handler:
        async def answer(request: Request) -> Response:
            form, sent = _found(forms, request), await _form_of(request)
            refused = self._is_foreign(request, sent)
            if refused is not None:
                return refused
            values = form.filled({**sent, **request.path_params})
            if any(field.choices and values.get(field.name) not in field.choices for field in form.fields):
                return HTMLResponse("a field has a value that is none of its choices", 400)
            notice = await run_in_threadpool(lambda: self._deeds.do(request, form, values))
            return RedirectResponse(f"{_back(request)}?{_TOLD}={request.scope[_SESSION].keep(notice)}", 303)

        return answer

    def _is_foreign(self, request: Request, form: Mapping[str, str]) -> Response | None:
        """A refusal of what is not from a page of this session."""
        if other_origin(request.headers) is None and brings_form_token(request.scope[_SESSION], form):
            return None
        return HTMLResponse("this form is not one of your session's pages: load the page again", 403)

    # what goes wrong

    def _guarded(self, handler: Handler) -> Handler:
        """A defect is in the log, and a sentence on the page."""

        async def answer(request: Request) -> Response:
            try:
                return await handler(request)
            except (HTTPException, DMError):
                raise
            except Exception as defect:
                self._log.exception("request failed", path=request.url.path)
                what = f"{request.url.path} ended with {type(defect).__name__}"
                return self._told(request, DMError("internal-error", what=what), 500)

        return answer

    def handlers(self) -> dict[Any, Callable[[Request, Any], Awaitable[Response]]]:
        """By the exception."""
        return {HTTPException: self._unknown, DMError: self._refused}

    async def _unknown(self, request: Request, error: HTTPException) -> Response:
        """No such address."""
        return self._render(request, "problem.html", {"problem": str(error.detail), "advice": ""}, error.status_code)

    async def _refused(self, request: Request, error: DMError) -> Response:
        """A task that is not there, a permission that is missing."""
        missing = error.name.endswith("-unknown")
        return self._told(request, error, 403 if error.name == "permission-missing" else 404 if missing else 400)

    def _told(self, request: Request, error: DMError, status: int) -> Response:
        report = error.report()
        shown = {"problem": f"Error {report['ErrCode']}: {report['Message']}", "advice": report["Workaround"]}
        return self._render(request, "problem.html", shown, status)


def _pieces(text: str) -> list[tuple[str, bool]]:
    """The parts of a message, and whether each is a command or a key, which messages have in backticks."""
    return [(part, number % 2 == 1) for number, part in enumerate(text.split("`")) if part]


def _found(forms: Mapping[str, Form], request: Request) -> Form:
    form = forms.get(request.path_params["form"])
    if form is None:
        raise HTTPException(404)
    return form


async def _form_of(request: Request) -> dict[str, str]:
    """The fields of a form, as browsers send them unless told otherwise."""
    try:
        return dict(parse_qsl((await request.body()).decode(), max_num_fields=50, keep_blank_values=True))
    except ValueError:
        return {}


def _address(request: Request) -> str | None:
    return None if request.client is None else request.client.host


def _back(request: Request) -> str:
    """The page that a question belongs to."""
    params = request.path_params
    if "task" in params:
        return f"{ROOT}/tasks/{quote(params['task'], safe='')}"
    return f"{ROOT}/sources" if "source" in params else f"{ROOT}/settings"


def _next(wanted: str | None) -> str:
    """The page that was asked for before the login, if it is one of ours."""
    ours = wanted is not None and wanted.startswith(f"{ROOT}/") and "//" not in wanted and "\\" not in wanted
    return wanted if ours and wanted is not None and wanted.isprintable() else f"{ROOT}/"
