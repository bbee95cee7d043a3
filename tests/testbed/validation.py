"""A validator for a test, in a thread of the test's process, beside a running sync unit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path

from dm.config.subtask import SubtaskConfig
from dm.config.units import ValidatorConfig
from dm.downstream.connection import TargetConnection
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.progress.validator import has_validator_tables
from dm.progress.validator_errors import ErrorState, StoredError, TableStatus, read_errors, read_table_status
from dm.tools.validator.unit import Start, ValidatorUnit
from dm.unit import JSON
from tests.testbed.sync import FreshProcess, PreparedProcess, UnitProcess, wait_until, work_directory_of
from tests.testbed.unit_thread import UnitThread

QUICK: Mapping[str, object] = {
    "mode": "full", "validate_interval": 0.1, "check_interval": 0.1, "row_error_delay": 0.0, "meta_flush_interval": 0.2,
    "worker_count": 2,
}  # fmt: skip


def validated(subtask: SubtaskConfig, **settings: object) -> SubtaskConfig:
    """The subtask with a validator that does not let a test wait."""
    config = ValidatorConfig.model_validate({**QUICK, **settings})
    syncer = subtask.syncer.model_copy(update={"checkpoint_flush_interval": 1})
    return subtask.model_copy(update={"validator": config, "syncer": syncer})


def key_of(subtask: SubtaskConfig) -> SubtaskKey:
    return SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)


def errors_of(subtask: SubtaskConfig, *states: ErrorState) -> list[StoredError]:
    """What is stored as wrong."""
    with closing(TargetConnection(subtask.target)) as connection:
        if not has_validator_tables(connection, key_of(subtask)):
            return []
        return read_errors(connection, key_of(subtask), states or ("new",))


def tables_of(subtask: SubtaskConfig) -> dict[str, TableStatus]:
    """The stages of the source's tables, by their bare names."""
    with closing(TargetConnection(subtask.target)) as connection:
        return {each.source.table: each for each in read_table_status(connection, key_of(subtask))}


class RunningValidator(UnitThread):
    """One run."""

    def __init__(self, subtask: SubtaskConfig, relay: Path | None = None, start: Position | None = None) -> None:
        directory = work_directory_of(subtask).with_name(f"{subtask.source_id}.validator")
        self.unit = ValidatorUnit(subtask, relay_directory=relay, work_directory=directory, start=Start(start))
        super().__init__(self.unit, "validator")

    def status(self) -> Mapping[str, JSON]:
        """Its status; raises the unit's own error."""
        if self.error is not None:
            raise self.error
        return self.unit.status()

    def wait(self, processed: str, pending: str = "0/0/0", seconds: float = 60) -> None:
        """Wait until it has read so many inserts, updates and deletes, and so many wait."""
        wanted = {"processedRowsStatus": processed, "pendingRowsStatus": pending}
        words = {name: f"insert/update/delete: {counts}" for name, counts in wanted.items()}

        def there() -> bool:
            status = self.status()
            return all(status.get(name) == value for name, value in words.items())

        try:
            wait_until(there, f"{processed} read, {pending} pending", seconds)
        except AssertionError as never:
            raise AssertionError(f"{never}; the status is {dict(self.status())}") from None


class ValidatorProcess(UnitProcess):
    """One run, in a process of its own."""

    def __init__(
        self,
        subtask: SubtaskConfig,
        directory: Path,
        faults: str = "",
        *,
        relay: Path | None = None,
        ready: PreparedProcess | FreshProcess | None = None,
    ) -> None:
        super().__init__("validator", subtask.to_wire(), relay, work_directory=directory, faults=faults, ready=ready)


def running_validator(
    subtask: SubtaskConfig, relay: Path | None = None, start: Position | None = None
) -> RunningValidator:
    """Run a validator; as a context, it is stopped in the end and raises its error."""
    return RunningValidator(subtask, relay, start)
