"""`dmctl validation`: what validators have stored at the target, and what a person says of it.

No run has to be asked: errors and the stages of tables are stored when they are found, and a validator looks for a
cutover at each of its rounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from dm.config import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.errors import DMError
from dm.position import TimePlace
from dm.progress.checkpoint import read_checkpoint, write_validator_beginning
from dm.progress.validator import (
    StoredValidation,
    create_validator_tables,
    has_validator_tables,
    read_cutover,
    read_validation,
    remove_validation,
    store_cutover,
)
from dm.progress.validator_errors import (
    ErrorState,
    Operation,
    StoredError,
    TableStatus,
    change_errors,
    count_errors,
    read_errors,
    read_table_status,
)
from dm.task.progress import key_of
from dm.task.start_and_end import StartTime, place_of
from dm.tools.validator.throttle import CutoverPlace
from dm.tools.validator.validator_status import errors_status, rows_status
from dm.unit import JSON


def stored_status(config: SubtaskConfig) -> dict[str, JSON]:
    """The fields of a validator that does not run."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        there = has_validator_tables(connection, key)
        stored = read_validation(connection, key) if there else StoredValidation()
        position, pending = stored.position, stored.pending
        processed = stored.processed
        found: dict[str, JSON] = {
            "validatorBinlog": "" if position is None else str(position),
            "validatorBinlogGtid": "" if position is None else str(position.gtid_set),
            "processedRowsStatus": rows_status(processed.inserts, processed.updates, processed.deletes),
            "pendingRowsStatus": rows_status(*(pending.get(kind, 0) for kind in ("insert", "update", "delete"))),
        }
        return found | counted(config)


def counted(config: SubtaskConfig) -> dict[str, JSON]:
    """What changes without the validator: errors by state, the cutover."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        if not has_validator_tables(connection, key):
            empty: dict[str, JSON] = {"cutoverBinlogPos": "", "cutoverBinlogGtid": ""}
            return {"errorRowsStatus": errors_status({}), "newErrors": 0, **empty}
        cutover, counts = read_cutover(connection, key), count_errors(connection, key)
        return {
            "errorRowsStatus": errors_status(counts),
            "newErrors": counts.get("new", 0),
            "cutoverBinlogPos": cutover.place,
            "cutoverBinlogGtid": cutover.gtid,
        }


def tables(config: SubtaskConfig) -> list[TableStatus]:
    """The stages of a subtask's tables."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        return read_table_status(connection, key) if has_validator_tables(connection, key) else []


def errors(config: SubtaskConfig, states: Sequence[ErrorState]) -> list[StoredError]:
    """The errors of a subtask in these states."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        return read_errors(connection, key, states) if has_validator_tables(connection, key) else []


def change(config: SubtaskConfig, operation: Operation, number: int | None) -> int:
    """Ignore, resolve or forget an error, or all; gives how many there were."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        return change_errors(connection, key, operation, number) if has_validator_tables(connection, key) else 0


def cut_over(config: SubtaskConfig, place: str, gtid: str) -> None:
    """Say where business moves to the target; raises DMError."""
    checked = CutoverPlace.checked(place, gtid)
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        if not has_validator_tables(connection, key) or not store_cutover(connection, key, checked.told):
            raise DMError("validator-not-there", task=config.task)


def forget(config: SubtaskConfig) -> None:
    """The task begins at another place, and its validator there, too: what was found says nothing of what follows."""
    with closing(TargetConnection(config.target)) as connection:
        key = key_of(config)
        remove_validation(connection, key)
        if config.validator.mode != "none" and (begins := read_checkpoint(connection, key)) is not None:
            create_validator_tables(connection, key)
            connection.begin()
            write_validator_beginning(connection, key, begins)
            connection.commit()


def beginning(config: SubtaskConfig, when: StartTime, relay: Path) -> TimePlace:
    """Where a time begins in the source's binlog; raises DMError."""
    return place_of(config, when, relay, reader=f"{config.task} (validator)")


@dataclass(frozen=True, slots=True)
class Validations:
    """All of these, for whoever is not to know databases."""

    stored_status: Callable[[SubtaskConfig], dict[str, JSON]] = stored_status
    counted: Callable[[SubtaskConfig], dict[str, JSON]] = counted
    tables: Callable[[SubtaskConfig], list[TableStatus]] = tables
    errors: Callable[[SubtaskConfig, Sequence[ErrorState]], list[StoredError]] = errors
    change: Callable[[SubtaskConfig, Operation, int | None], int] = change
    cut_over: Callable[[SubtaskConfig, str, str], None] = cut_over
    forget: Callable[[SubtaskConfig], None] = forget
    beginning: Callable[[SubtaskConfig, StartTime, Path], TimePlace] = beginning
