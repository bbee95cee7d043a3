"""An operation of DM's OpenAPI: declared at its method, answered as DM answers.

A method is one operation. Its decorator says route, permission, answer and status; its parameters are those of the
request, by FastAPI's rules; its name is DM's operation id without `DMAPI`. A body may ask for more than its path
usually does: one with `changes` needs the permission `change`.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from fastapi import Depends, FastAPI, Request
from fastapi.responses import JSONResponse, Response
from pydantic import BaseModel

from dm.cluster.ownership import SOURCE
from dm.config import SourceConfig
from dm.errors import DMError
from dm.verbs.declaration import CHANGES, READS, ConfigFile, Permission, Verb
from dm.worker.access import demanding
from dm.worker.audit import AuditLog
from dm.worker.dm_openapi.source_shapes import ErrorWithMessage
from dm.worker.refusal import PATHS_OF_DM, dm_error
from dm.worker.registry import SubtaskRecord
from dm.worker.verb_work import Answer, Means, Work

F = TypeVar("F", bound=Callable[..., Any])

ROOT: Final = "/api/v1"
DOCUMENT: Final = f"{ROOT}/dm.json"  # DM's address of its document
_MARK: Final = "dm_operation"
_NAMED_SHAPE: Final = re.compile(r"#/components/schemas/([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Operation:
    """What is declared of a method."""

    method: str
    path: str
    permission: Permission
    answer: Any = None  # a model, or a list
    status: int = 200
    missing: str = ""  # the error that is answered with 404


def operation(
    route: str, permission: Permission, answer: Any = None, *, status: int = 200, missing: str = ""
) -> Callable[[F], F]:
    """Declare a method as the one that answers a route."""
    method, _, path = route.partition(" ")
    declared = Operation(method, f"{ROOT}/{path}", permission, answer, status, missing)

    def mark(function: F) -> F:
        setattr(function, _MARK, declared)
        return function

    return mark


class OpenAPIRequests:
    """Methods that answer operations of one subject."""

    tag = ""

    def __init__(self, means: Means, work: Mapping[type[Verb], Work]) -> None:
        self._means = means
        self._loop, self._supervisor, self._read = means.loop, means.supervisor, means.reader
        self._registry = means.supervisor.registry
        self._work = work

    def _do(self, verb: Verb) -> Answer:
        """What the verb answers; raises DMError."""
        return self._work[type(verb)](verb)

    def _worker(self, source: str) -> str:
        """What DM calls the worker of a source: the host that has it."""
        others = self._means.others
        owner = None if others is None else others.membership.ownership.owner(SOURCE, source)
        return owner or self._supervisor.worker

    def _demand_worker(self, what: str, source: str, *workers: str) -> None:
        """Raise DMError for another worker than the one that has the source."""
        for name in workers:
            if name == self._worker(source):
                continue
            if self._means.others is not None:
                raise DMError("source-elsewhere", source=source, member=self._worker(source))
            hint = "leave the worker out, or take the name that GET /api/v1/cluster/workers gives"
            raise DMError("openapi-single-host", what=f"{what} {name}", worker=self._supervisor.worker, hint=hint)

    def _stored(self, task: str) -> dict[str, SubtaskRecord]:
        """What is stored of a task's subtasks, where other hosts may have some; by source."""
        if self._supervisor.alone:
            return {}
        return {source: seen for (name, source), seen in self._registry.subtasks().items() if name == task}

    def _file(self, what: str, text: str) -> ConfigFile:
        """A file that a request brings; paths in it start in the daemon's home."""
        return ConfigFile(f"{what} of the request", text, str(self._supervisor.home.directory))

    def _sources(self) -> dict[str, SourceConfig]:
        """The sources whose files are understood."""
        return self._loop.call(self._supervisor.source_configs)

    def operations(self) -> Iterator[tuple[Callable[..., Any], Operation]]:
        """Its methods, with what is declared of them."""
        for name, member in vars(type(self)).items():
            declared = getattr(member, _MARK, None)
            if declared is not None:
                yield getattr(self, name), declared


def add_operations(app: FastAPI, subjects: Sequence[OpenAPIRequests], audit: AuditLog) -> None:
    """Have the application answer the operations of these subjects."""
    found = [(subject.tag, *each) for subject in subjects for each in subject.operations()]
    # `{` comes after all letters: of two routes that fit a path, the one without a name in this place is meant.
    for tag, method, declared in sorted(found, key=lambda each: each[2].path):
        app.add_api_route(
            declared.path,
            _endpoint(method, declared),
            methods=[declared.method],
            operation_id=operation_id(method.__name__),
            summary=method.__doc__,
            tags=[tag],
            status_code=declared.status,
            response_model=declared.answer,
            response_model_exclude_none=True,
            dependencies=[Depends(_allowed(method.__name__, declared, audit))],
            responses={"4XX": {"model": ErrorWithMessage}},
            response_class=Response if declared.answer is None else JSONResponse,
            openapi_extra={"x-permission": declared.permission.value},
        )

    @app.get(DOCUMENT, include_in_schema=False, dependencies=[Depends(demanding(READS))], response_model=None)
    def document() -> dict[str, Any]:
        return _own_part(app.openapi())


def _own_part(document: Mapping[str, Any]) -> dict[str, Any]:
    """The part of the application's document that is DM's OpenAPI, with the shapes that it names."""
    paths = {path: said for path, said in document["paths"].items() if path.startswith(PATHS_OF_DM)}
    shapes, waiting = dict[str, Any](), [str(paths)]
    while waiting:
        named = {*_NAMED_SHAPE.findall(waiting.pop())} - shapes.keys()
        shapes |= {name: document["components"]["schemas"][name] for name in named}
        waiting += [str(shapes[name]) for name in named]
    return {**document, "paths": paths, "components": {"schemas": shapes}}


def operation_id(name: str) -> str:
    """DM's name of an operation, as DMAPICreateSource."""
    return f"DMAPI{''.join(part.capitalize() for part in name.split('_'))}"


def _allowed(name: str, declared: Operation, audit: AuditLog) -> Callable[[Request], None]:
    demand = demanding(declared.permission)

    def allowed(request: Request) -> None:
        audit.asked(request, operation_id(name), declared.permission)
        demand(request)

    return allowed


def _endpoint(method: Callable[..., Any], declared: Operation) -> Callable[..., Any]:
    """The function that FastAPI calls, with the signature of the method."""
    signature = inspect.signature(method, eval_str=True)
    places = [*signature.parameters.values()]
    wants_request = "request" in signature.parameters
    demand = demanding(CHANGES)

    def endpoint(request: Request, **given: Any) -> Any:
        for body in given.values():
            if isinstance(body, BaseModel) and getattr(body, "changes", False):
                demand(request)
        try:
            answer = method(**given, **({"request": request} if wants_request else {}))
        except DMError as error:
            if error.name == declared.missing:
                return JSONResponse(dm_error(error), 404)
            raise
        return Response(status_code=declared.status) if answer is None else answer

    others = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in places if each.name != "request"]
    asked = inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
    endpoint.__signature__ = inspect.Signature([asked, *others])  # type: ignore[attr-defined]
    return endpoint
