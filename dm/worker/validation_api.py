"""The control API's part for `dmctl validation`."""

from __future__ import annotations

from typing import Literal

from fastapi import FastAPI

from dm.progress.validator_errors import Operation
from dm.worker.request_body import RequestBody
from dm.worker.validation_verbs import Answer, ValidationVerbs


class StartValidation(RequestBody):
    """Which validators are to run; all when no task is named."""

    task: str = ""
    sources: list[str] = []
    mode: Literal["full", "fast"] | None = None
    start_time: str | None = None


class StopValidation(RequestBody):
    """Which are to rest."""

    task: str = ""
    sources: list[str] = []


class ErrorNumber(RequestBody):
    """Which error is meant; all without a number."""

    number: int | None = None


class UpdateValidation(RequestBody):
    """Where business moves to the target."""

    sources: list[str] = []
    cutover_binlog_pos: str = ""
    cutover_binlog_gtid: str = ""


def add_validation(app: FastAPI, verbs: ValidationVerbs) -> None:
    """Have the application answer these, too."""

    @app.post("/api/v1/validations/start", response_model=None)
    def start(body: StartValidation) -> Answer:
        return verbs.start(body.task, body.sources, body.mode, body.start_time)

    @app.post("/api/v1/validations/stop", response_model=None)
    def stop(body: StopValidation) -> Answer:
        return verbs.stop(body.task, body.sources)

    @app.get("/api/v1/tasks/{name}/validation", response_model=None)
    def status(name: str, table_stage: Literal["", "running", "stopped"] = "") -> Answer:
        return verbs.status(name, table_stage)

    @app.get("/api/v1/tasks/{name}/validation/errors", response_model=None)
    def errors(name: str, state: Literal["all", "ignored", "unprocessed"] = "unprocessed") -> Answer:
        return verbs.show_errors(name, state)

    @app.post("/api/v1/tasks/{name}/validation/errors/{operation}", response_model=None)
    def change(name: str, operation: Operation, body: ErrorNumber) -> Answer:
        return verbs.change_errors(name, operation, body.number)

    @app.post("/api/v1/tasks/{name}/validation/update", response_model=None)
    def update(name: str, body: UpdateValidation) -> Answer:
        return verbs.update(name, body.sources, body.cutover_binlog_pos, body.cutover_binlog_gtid)
