"""The control API: verbs as HTTP, answers as DM's JSON.

It is reached through a Unix socket that only the user can open, and, where asked for, through a loopback port. That
port is open to every user and program of this machine, hence the token (dm/worker/token.py). Browsers are among those
programs, hence two rules more: a request must name a host of ours (else a web page could reach it through a DNS name
that points to 127.0.0.1), and one that changes something must come as JSON (which a page of another origin can't send
without asking first).
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from typing import Literal, cast

import structlog
from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from pydantic import Field
from starlette.exceptions import HTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from dm.diff.options import DiffOptions
from dm.errors import DMError
from dm.flashback.request import FlashbackRequest
from dm.ident import TableName
from dm.syncer.stream.operators import Verb
from dm.task.shard_locks import Decision
from dm.task.tracked_structure import StructureRequest
from dm.unit import JSON
from dm.worker.connection import LimitedBody
from dm.worker.metrics import CONTENT_TYPE, Metrics
from dm.worker.operations import Answer, Operations, PrecheckFailed
from dm.worker.registry import ConfigFile
from dm.worker.request_body import RequestBody
from dm.worker.token import METRICS_PATH
from dm.worker.validation_api import add_validation
from dm.worker.version import installed_version

HOST = "dm-worker"  # what the client calls the host behind the Unix socket


class File(RequestBody):
    """A source or task file as the client read it."""

    name: str
    text: str
    directory: str
    environment: dict[str, str] = Field(default_factory=dict, repr=False)

    def config_file(self) -> ConfigFile:
        """As the registry keeps it."""
        return ConfigFile(self.name, self.text, self.directory, self.environment)


class Files(RequestBody):
    """Several files that are taken together or not at all."""

    files: list[File]


class StopFiles(Files):
    """The files of sources that are to be forgotten."""

    keep_relay: bool = False


class Forgotten(RequestBody):
    """Task files at whose targets is looked; at those of the known tasks when there is none."""

    files: list[File] = []


class RemoveForgotten(Forgotten):
    """What is to go, by the names that the list has."""

    names: list[str]


class Check(RequestBody):
    """A task file and where it would start."""

    file: File
    start_time: str | None = None


class Start(RequestBody):
    """A task file and how to start it."""

    file: File
    sources: list[str] = []
    remove_meta: bool = False
    start_time: str | None = None
    until: str | None = None


class PurgeRelay(RequestBody):
    """Which relay files are to go: all before this one."""

    filename: str
    sub_dir: str = ""


class BinlogOperation(RequestBody):
    """An event, and the statements that are to stand for it or before it."""

    sources: list[str] = []
    binlog_pos: str = ""
    sqls: list[str] = []


class TableStructure(RequestBody):
    """A table of the source, and where its new structure comes from."""

    sources: list[str] = []
    database: str
    table: str
    origin: Literal["file", "source", "target"] = "file"
    text: str = ""
    sync: bool = True


class Unlock(RequestBody):
    """A lock of shards, and what a person says about it."""

    lock: str
    sources: list[str] = []
    action: Literal["exec", "skip"] = "exec"
    database: str = ""
    table: str = ""
    force_remove: bool = False

    def decision(self) -> Decision:
        """As the task takes it."""
        table = TableName(self.database, self.table) if self.table else None
        return Decision(self.lock, tuple(self.sources), table, self.action == "skip", self.force_remove)


class Update(RequestBody):
    """A task file as it is to be; `look`: only say what that changes."""

    file: File
    look: bool


class ReloadTable(RequestBody):
    """A table of a source that is to be loaded again, or that this is to be taken back."""

    database: str = ""
    table: str = ""
    source: str | None = None
    recreate: bool = False
    cancel: bool = False


class Encrypt(RequestBody):
    """A password to encrypt."""

    text: str = Field(repr=False)


class OfSources(RequestBody):
    """Which of a task's sources are meant; all when none is named."""

    sources: list[str] = []


class StopTask(OfSources):
    """Subtasks that are to end, with their progress or without."""

    remove_meta: bool = False


class StopSources(OfSources):
    """Sources that are to be forgotten, with their relay files or without."""

    keep_relay: bool = False


class Diff(RequestBody):
    """What is to be compared: a known task, or the one in a file."""

    task: str = ""
    file: File | None = None
    tables: list[str] = []
    where: str = ""
    ignore_columns: list[str] = []
    fix_sql: str = ""
    rows: int = Field(default=100_000, ge=1)
    threads: int = Field(default=4, ge=1)
    max_load: int = Field(default=0, ge=0)
    kept_bytes: int = Field(default=64 << 20, ge=1)
    shown: int = Field(default=20, ge=0)
    snapshots: list[str] = []
    resume: bool = False


class Flashback(RequestBody):
    """What is to be taken back of a task."""

    task: str
    sources: list[str] = []
    begin: str
    end: str = ""
    tables: list[str] = []
    directory: str


class Replay(RequestBody):
    """Up to where a backlog is to be replayed, or that it is the syncer's again."""

    until: str = ""
    cancel: bool = False


class WorkerSettings(RequestBody):
    """Settings of the daemon by their names; those left out stay."""

    settings: dict[Literal["log-level", "log-max-size", "log-max-backups"], str]


def create_app(operations: Operations, metrics: Metrics, shutdown: Callable[[], None]) -> FastAPI:
    """The application; `shutdown` asks the daemon to end."""
    app = _application()

    @app.get("/api/v1/daemon", response_model=None)
    def daemon() -> Answer:
        processes = cast("JSON", operations.processes())
        return {
            "result": True, "msg": "", "version": installed_version(), "pid": os.getpid(), "processes": processes,
        }  # fmt: skip

    @app.post("/api/v1/daemon/shutdown", response_model=None)
    def end() -> Answer:
        shutdown()
        return {"result": True, "msg": "", "pid": os.getpid()}

    @app.post("/api/v1/encrypt", response_model=None)
    def encrypt(body: Encrypt) -> Answer:
        return operations.encrypt(body.text)

    _sources(app, operations)
    _tasks(app, operations)
    _config(app, operations)
    _errands(app, operations)
    _locks(app, operations)
    add_validation(app, operations.validation)
    _joins(app, operations)
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


def _errands(app: FastAPI, operations: Operations) -> None:
    @app.post("/api/v1/diffs", response_model=None)
    def begin(body: Diff) -> Answer:
        options = DiffOptions.from_wire(body.model_dump(exclude={"task", "file"}))
        return operations.errands.diff(body.task, None if body.file is None else body.file.config_file(), options)

    @app.get("/api/v1/diffs/{number}", response_model=None)
    def status(number: int) -> Answer:
        return operations.errands.status(number)

    @app.post("/api/v1/diffs/{number}/stop", response_model=None)
    def stop(number: int) -> Answer:
        return operations.errands.stop(number)

    @app.post("/api/v1/flashbacks", response_model=None)
    def take_back(body: Flashback) -> Answer:
        request = FlashbackRequest(body.begin, body.end, tuple(body.tables), body.directory)
        return operations.errands.flashback(body.task, body.sources, request)

    @app.get("/api/v1/flashbacks/{number}", response_model=None)
    def written(number: int) -> Answer:
        return operations.errands.status(number)

    @app.post("/api/v1/flashbacks/{number}/stop", response_model=None)
    def stop_writing(number: int) -> Answer:
        return operations.errands.stop(number)

    @app.post("/api/v1/tasks/{name}/replays", response_model=None)
    def replay(name: str, body: Replay) -> Answer:
        return operations.replays.begin(name, body.until, cancel=body.cancel)

    @app.get("/api/v1/replays/{number}", response_model=None)
    def replayed(number: int) -> Answer:
        return operations.errands.status(number)

    @app.post("/api/v1/replays/{number}/stop", response_model=None)
    def stop_replaying(number: int) -> Answer:
        return operations.errands.stop(number)


def _joins(app: FastAPI, operations: Operations) -> None:
    @app.post("/api/v1/tasks/update", response_model=None)
    def update(body: Update) -> Answer:
        file = body.file.config_file()
        return operations.updates.look(file) if body.look else operations.updates.update(file)

    @app.post("/api/v1/tasks/{name}/cancel-update", response_model=None)
    def cancel_update(name: str) -> Answer:
        return operations.updates.cancel(name)

    @app.post("/api/v1/tasks/{name}/reload-table", response_model=None)
    def reload_table(name: str, body: ReloadTable) -> Answer:
        if body.cancel:
            return operations.joins.cancel_reload(name)
        return operations.joins.reload(name, TableName(body.database, body.table), body.source, anew=body.recreate)


def _locks(app: FastAPI, operations: Operations) -> None:
    @app.get("/api/v1/shard-ddl-locks", response_model=None)
    def show(task: str = "") -> Answer:
        return operations.shards.show(task)

    @app.post("/api/v1/shard-ddl-locks/unlock", response_model=None)
    def unlock(body: Unlock) -> Answer:
        return operations.shards.unlock(body.decision())


def _config(app: FastAPI, operations: Operations) -> None:
    @app.get("/api/v1/config", response_model=None)
    def everything() -> Answer:
        return operations.config.everything()

    @app.get("/api/v1/config/worker", response_model=None)
    def worker() -> Answer:
        return operations.config.worker()

    @app.put("/api/v1/config/worker", response_model=None)
    def change_worker(body: WorkerSettings) -> Answer:
        return operations.config.change_worker({str(name): value for name, value in body.settings.items()})

    @app.get("/api/v1/config/task/{name}", response_model=None)
    def task(name: str) -> Answer:
        return operations.config.task(name)

    @app.get("/api/v1/config/source/{name}", response_model=None)
    def source(name: str) -> Answer:
        return operations.config.source(name)

    @app.get("/api/v1/logs", response_model=None)
    def logs(task: str | None = None, source: list[str] = Query(default=[])) -> Answer:
        return operations.config.log_files(task, source)


def _sources(app: FastAPI, operations: Operations) -> None:
    @app.get("/api/v1/sources", response_model=None)
    def show_sources(source: list[str] = Query(default=[])) -> Answer:
        return operations.sources.show(source)

    @app.post("/api/v1/sources", response_model=None)
    def create_sources(body: Files) -> Answer:
        return operations.sources.create([file.config_file() for file in body.files])

    @app.put("/api/v1/sources", response_model=None)
    def update_sources(body: Files) -> Answer:
        return operations.sources.update([file.config_file() for file in body.files])

    @app.post("/api/v1/forgotten", response_model=None)
    def forgotten(body: Forgotten) -> Answer:
        return operations.forgotten.listed([file.config_file() for file in body.files])

    @app.post("/api/v1/forgotten/remove", response_model=None)
    def remove_forgotten(body: RemoveForgotten) -> Answer:
        return operations.forgotten.remove(body.names, [file.config_file() for file in body.files])

    @app.post("/api/v1/sources/stop", response_model=None)
    def stop_sources(body: StopSources) -> Answer:
        return operations.sources.remove(body.sources, keep_relay=body.keep_relay)

    @app.post("/api/v1/sources/stop-by-file", response_model=None)
    def stop_sources_by_file(body: StopFiles) -> Answer:
        names = [operations.sources.id_of(file.config_file()) for file in body.files]
        return operations.sources.remove(names, keep_relay=body.keep_relay)

    @app.post("/api/v1/sources/{name}/relay/purge", response_model=None)
    def purge_relay(name: str, body: PurgeRelay) -> Answer:
        return operations.relays.purge(name, body.filename, body.sub_dir)

    @app.post("/api/v1/sources/{name}/relay/{verb}", response_model=None)
    def relay(name: str, verb: Literal["start", "stop", "pause", "resume"]) -> Answer:
        return operations.relays.operate(name, verb)


def _tasks(app: FastAPI, operations: Operations) -> None:
    @app.post("/api/v1/task-name", response_model=None)
    def task_name(body: File) -> Answer:
        return {"result": True, "msg": "", "taskName": operations.task_name_of(body.config_file())}

    @app.post("/api/v1/tasks/check", response_model=None)
    def check(body: Check) -> Answer:
        return operations.check_task(body.file.config_file(), start_time=body.start_time)

    @app.get("/api/v1/tasks", response_model=None)
    def tasks(source: list[str] = Query(default=[])) -> Answer:
        return operations.query_status(None, source)

    @app.post("/api/v1/tasks", response_model=None)
    def start(body: Start) -> Answer:
        return operations.start_task(
            body.file.config_file(),
            body.sources,
            remove_meta=body.remove_meta,
            start_time=body.start_time,
            until=body.until,
        )

    @app.get("/api/v1/tasks/{name}/status", response_model=None)
    def status(name: str, source: list[str] = Query(default=[])) -> Answer:
        return operations.query_status(name, source)

    @app.post("/api/v1/tasks/{name}/pause", response_model=None)
    def pause(name: str, body: OfSources) -> Answer:
        return operations.pause_task(name, body.sources)

    @app.post("/api/v1/tasks/{name}/resume", response_model=None)
    def resume(name: str, body: OfSources) -> Answer:
        return operations.resume_task(name, body.sources)

    @app.post("/api/v1/tasks/{name}/binlog/{verb}", response_model=None)
    def binlog(name: str, verb: Verb, body: BinlogOperation) -> Answer:
        return operations.binlog.operate(verb, name, body.sources, body.binlog_pos, body.sqls)

    @app.post("/api/v1/tasks/{name}/binlog-schema/{verb}", response_model=None)
    def binlog_schema(name: str, verb: Literal["list", "update", "delete"], body: TableStructure) -> Answer:
        table = TableName(body.database, body.table)
        request = StructureRequest(verb, table, body.origin, body.text, body.sync)
        return operations.binlog.structure(name, body.sources, request)

    @app.post("/api/v1/tasks/{name}/stop", response_model=None)
    def stop(name: str, body: StopTask) -> Answer:
        return operations.stop_task(name, body.sources, remove_meta=body.remove_meta)
