"""Verbs of validators: applied rows are compared, and those that are wrong are kept as errors."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from dm.errors import DMError
from dm.verbs.declaration import (
    EACH_ITS_SOURCES,
    EACH_OWNER,
    OPERATES,
    READS,
    TASK,
    Record,
    Sources,
    Task,
    Verb,
    VerbGroup,
    argument,
    option,
    shape,
)

WARNED: Final = shape("ValidationStarted", warnings=list[str])
VALIDATION: Final = shape("ValidationTold", validators=list[Record], tableStatuses=list[dict[str, str]])
ERRORS: Final = shape("ErrorsTold", error=list[dict[str, str]])
ERRORS_CHANGED: Final = shape("ErrorsChanged", changed=int)

GROUPS = (VerbGroup("validation", "Validate applied rows, and show those that are wrong."),)


class OperatedValidators(Verb, permission=OPERATES):
    """The validators of one task, or of all."""

    task: Annotated[str, argument("the task's name, or its file", TASK)] = ""
    all_task: Annotated[bool, option("--all-task", "the validators of all tasks", sent=False)] = False

    def demand_consistent(self) -> None:
        """Raise DMError unless either a task or all are meant."""
        if bool(self.task) is self.all_task:
            raise DMError("usage", problem="either a task or --all-task is to be given", hint="name a task")


class StartValidation(
    OperatedValidators,
    name="validation start",
    route="POST validations/start",
    answer=WARNED,
    division=EACH_ITS_SOURCES,
):
    """Begin to validate, or go on where it was stopped."""

    mode: Annotated[
        Literal["full", "fast"] | None,
        option("--mode", "full (default): all values; fast: whether the row is there"),
    ] = None
    start_time: Annotated[
        str | None, option("--start-time", "begin at this time in the binlog, as 2021-10-21T00:01:00")
    ] = None
    sources: Sources = ()


class StopValidation(
    OperatedValidators, name="validation stop", route="POST validations/stop", division=EACH_ITS_SOURCES
):
    """Validate no more for now."""

    sources: Sources = ()


class ValidationStatus(
    Verb,
    name="validation status",
    route="GET tasks/{task}/validation",
    permission=READS,
    answer=VALIDATION,
    division=EACH_OWNER,
):
    """Show how far it is, and what is not validated."""

    task: Task
    table_stage: Annotated[
        Literal["running", "stopped"] | None,
        option("--table-stage", "only tables in this stage: running or stopped"),
    ] = None


class ShowErrors(
    Verb,
    name="validation show-error",
    route="GET tasks/{task}/validation/errors",
    permission=READS,
    answer=ERRORS,
    division=EACH_OWNER,
):
    """Show rows that are wrong, and how to mend them."""

    task: Task
    state: Annotated[
        Literal["all", "ignored", "unprocessed"],
        option("--error", "which errors: all, ignored or unprocessed"),
    ] = "unprocessed"


class ChangedError(Verb, answer=ERRORS_CHANGED, division=EACH_OWNER):
    """An error of a task, or all of them."""

    operation: ClassVar[Literal["ignore", "resolve", "clear"]]

    task: Task
    number: Annotated[int | None, argument("the error's id, as show-error has it")] = None
    every: Annotated[bool, option("--all", "all errors of the task", sent=False)] = False

    def demand_consistent(self) -> None:
        """Raise DMError unless either an error or all are meant."""
        if (self.number is None) is not self.every:
            problem = "either an error's id or --all is to be given"
            raise DMError("usage", problem=problem, hint="show-error has the ids")


class IgnoreError(ChangedError, name="validation ignore-error", route="POST tasks/{task}/validation/errors/ignore"):
    """Count an error as ignored."""

    operation = "ignore"


class ResolveError(ChangedError, name="validation resolve-error", route="POST tasks/{task}/validation/errors/resolve"):
    """Count an error as resolved: the row was mended."""

    operation = "resolve"


class ClearError(ChangedError, name="validation clear-error", route="POST tasks/{task}/validation/errors/clear"):
    """Forget an error."""

    operation = "clear"


class UpdateValidation(
    Verb, name="validation update", route="POST tasks/{task}/validation/update", division=EACH_ITS_SOURCES
):
    """Say where business moves to the target."""

    task: Task
    cutover_binlog_pos: Annotated[str, option("--cutover-binlog-pos", "a place as '(mysql-bin.000001, 5989)'")] = ""
    cutover_binlog_gtid: Annotated[str, option("--cutover-binlog-gtid", "a GTID set")] = ""
    sources: Sources = ()

    def demand_consistent(self) -> None:
        """Raise DMError for two places."""
        if self.cutover_binlog_pos and self.cutover_binlog_gtid:
            raise DMError("usage", problem="a place and a GTID set are given", hint="give one of them")
