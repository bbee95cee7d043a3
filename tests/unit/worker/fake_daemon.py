"""The daemon with scripted units and without database servers; the fork server runs it.

Only what talks to servers is replaced. What it answers is in `servers.json` of $DM_HOME: the first unit of a task,
and a failure of the precheck or of the verification of a source.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dm.config import SourceConfig, SubtaskConfig, TaskConfig
from dm.config.subtask import Share
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position, TimePlace
from dm.progress.joining.branches import report_of
from dm.progress.joining.table_joining import Joining
from dm.progress.validator_errors import Operation, RowError, StoredError, TableStatus
from dm.sourcelog.relaylog.hold import Hold
from dm.sourcelog.stream.until import Until, UntilPosition, UntilTime
from dm.syncer.operators import EventPlace, Request
from dm.task.binlog_verbs import StructureRequest
from dm.task.branch_requests import Aside, BranchRequests, Moved
from dm.task.forgotten import Place, StoredProgress, StoredTask
from dm.task.join_requests import Added, JoinRequests, Reload
from dm.task.precheck.context import CheckResult
from dm.task.progress import FinalPlace
from dm.task.shard_locks import Decision, ShardLocks
from dm.task.start_and_end import AskedEnd, StartTime, is_time
from dm.task.subtask import UNITS_OF_MODE
from dm.task.validation import Validations
from dm.unit import JSON, UnitName
from dm.verbs.declaration import Verb
from dm.worker import daemon
from dm.worker.api import model_of
from dm.worker.daemon import DaemonParts, run
from dm.worker.operations import Operations
from dm.worker.verb_work import Answer, ProgressAtTarget, Servers, Work
from tests.testbed.host_forks import fork_hosts
from tests.unit.task import fake_host


def answers() -> dict[str, Any]:
    file = Path(os.environ["DM_HOME"]) / "servers.json"
    return json.loads(file.read_text()) if file.exists() else {}


def first_unit(config: SubtaskConfig) -> UnitName | None:
    named: dict[str, UnitName] = answers().get("first_unit", {})
    return named.get(config.task, UNITS_OF_MODE[config.mode][0])


def verify_source(config: SourceConfig) -> list[str]:
    if "verify_source" in answers():
        raise DMError("access-denied", role="upstream", address=config.endpoint.address, user=config.endpoint.user)
    return []


def place_answers(place: Place) -> None:
    if "target_gone" in answers():
        raise DMError("connection-lost", role="downstream", address=place.of.target_database.address)


def stored(place: Place) -> list[StoredTask]:
    place_answers(place)
    return [
        StoredTask(task, [TableName("dm_meta", f"{task}_{number}") for number in range(7)], ["one", "two"], "then")
        for task in answers().get("stored", [])
    ]


def while_it_starts(task: str) -> str:
    """What a slow removal says of a start of the task that has come between."""
    home = Path(os.environ["DM_HOME"])
    if task not in answers().get("slow_removal", []):
        return ""
    (home / "removing").touch()
    while not (home / "go").exists():
        time.sleep(0.01)
    begun = home / "checked"
    return " while it starts" if begun.exists() and task in begun.read_text().splitlines() else ""


def remove_stored(place: Place, task: str) -> list[str]:
    between = while_it_starts(task)
    with (Path(os.environ["DM_HOME"]) / "removed").open("a") as file:
        file.write(f"{place.name} {task}{between}\n")
    return ["`dm_meta`.`old_loader_deferral`"] if task == "old" else []


def demand_readable(config: SubtaskConfig) -> None:
    if "purged" in answers():
        raise DMError("relay-holds-more", source=config.source_id, task=config.task, place="a.3", first="a.7")


def hold_place(config: SubtaskConfig, _work: Path, relay_directory: Path) -> None:
    forgotten = Path(os.environ["DM_HOME"]) / "forgotten"
    removed = forgotten.exists() and config.name in forgotten.read_text().splitlines()
    if removed or (first_unit(config) == "Dump" and "planned" not in answers()):
        Hold(relay_directory, config.task).begin()


def check(config: TaskConfig, sources: Sequence[str], **_how: object) -> list[CheckResult]:
    if answers().keys() & {"slow_removal", "slow_check"}:
        with (Path(os.environ["DM_HOME"]) / "checked").open("a") as file:
            file.write(f"{config.name}\n")
    if "slow_check" in answers():
        while not (Path(os.environ["DM_HOME"]) / "ahead").exists():
            time.sleep(0.01)
    failing, warned = answers().get("failing_check"), answers().get("warned_check")
    results = [CheckResult("version", f"source {source}", "success", "MySQL 9.7") for source in sources]
    if warned:
        results.append(CheckResult(warned, f"task {config.name}", "warning", "no schema bnk is seen at one"))
    if failing:
        way_out = answers().get("way_out", "SET GLOBAL it = ON")
        results.append(CheckResult(failing, "source one", "failure", "it is off", way_out))
    return results


def forget_progress(config: SubtaskConfig, _work: Path) -> None:
    between = while_it_starts(config.task)
    with (Path(os.environ["DM_HOME"]) / "forgotten").open("a") as file:
        file.write(f"{config.name}{between}\n")


def place_of(_config: SubtaskConfig, when: StartTime, _relay: Path) -> TimePlace:
    if "too_late" in answers():
        raise DMError("start-time-too-late", source="one", time=when.text)
    return TimePlace(Position("a-server", "mysql-bin.000003", 154), known=True)


def begin_at(config: SubtaskConfig, place: TimePlace) -> list[str]:
    with (Path(os.environ["DM_HOME"]) / "begun").open("a") as file:
        file.write(f"{config.name} {place.position}\n")
    return []


def until_of(_config: SubtaskConfig, asked: AskedEnd, _relay: Path) -> Until:
    if "passed" in answers():
        raise DMError("until-passed", place=asked.text, checkpoint=asked.start or "(mysql-bin.000001, 154)")
    return UntilTime(1, asked.text) if is_time(asked.text) else UntilPosition(Position("a-server", "b.000009", 7))


def final_place(config: SubtaskConfig) -> FinalPlace:
    if "target_gone" in answers():
        raise DMError("connection-lost", role="downstream", address=config.target.address)
    end = Position("target", "binlog.000002", 99)
    return FinalPlace(Position("a-server", "mysql-bin.000003", 154), None, config.target.address, end)


def demand_sole_run(config: SubtaskConfig) -> None:
    if "runs_elsewhere" in answers():
        raise DMError("task-runs-elsewhere", task=config.task, source=config.source_id, connection=7, owner="another")
    if "target_gone" in answers():
        raise DMError("connection-lost", role="downstream", address=config.target.address)
    if "target_denied" in answers():
        raise DMError("access-denied", role="downstream", address=config.target.address, user=config.target.user)


def operate_binlog(config: SubtaskConfig, request: Request, failing: EventPlace | None) -> JSON:
    asked = {"failing": None if failing is None else str(failing), **request.to_json()}
    (Path(os.environ["DM_HOME"]) / f"operated-{config.task}").write_text(json.dumps(asked))
    if "no_operator" in answers():
        raise DMError("operator-missing", place=request.binlog_pos, task=request.task)
    sqls: list[JSON] = ["ALTER TABLE a.t ADD c INT"]
    listed: list[JSON] = [{"op": "replace", "task": "t", "binlogPos": "b.000001:4", "sqls": sqls, "state": "waiting"}]
    return listed if request.verb == "list" else []


def operate_structure(config: SubtaskConfig, request: StructureRequest) -> str:
    (Path(os.environ["DM_HOME"]) / f"structure-{config.task}").write_text(f"{request.verb} {request.origin}")
    return f"CREATE TABLE {request.table.sql} ({request.text})"


def locks(config: SubtaskConfig) -> list[JSON]:
    shards: list[JSON] = [
        {"source": "one", "table": "`a`.`t1`", "arrived": True, "waived": False, "since": "2026-01-01 10:00:00+00:00"},
        {"source": "two", "table": "`a`.`t2`", "arrived": False, "waived": False, "since": "2026-01-01 09:00:00+00:00"},
    ]
    lock: JSON = {
        "ID": f"{config.task}-`a`.`t`", "task": config.task, "mode": "pessimistic", "owner": "one",
        "DDLs": ["ALTER TABLE `a`.`t` ADD c INT"], "synced": ["one"], "unsynced": ["two"],
        "since": "2026-01-01 10:00:00+00:00", "shards": shards, "sourcesMissing": ["three"],
    }  # fmt: skip
    return [] if "no_lock" in answers() else [lock]


def decide(config: SubtaskConfig, decision: Decision) -> str:
    (Path(os.environ["DM_HOME"]) / f"decided-{config.task}").write_text(repr(decision))
    return ""


ROW = RowError(TableName("a", "t"), TableName("b", "t"), "0", "missing", '{"id": "1"}', "null", "id=1", "REPLACE ..")


def change(config: SubtaskConfig, operation: Operation, number: int | None) -> int:
    (Path(os.environ["DM_HOME"]) / f"changed-{config.task}").write_text(f"{operation} {number}")
    return 0 if number == 404 else 1


def cut_over(config: SubtaskConfig, place: str, gtid: str) -> None:
    (Path(os.environ["DM_HOME"]) / f"cutover-{config.task}").write_text(f"{place} {gtid}")


VALIDATIONS = Validations(
    stored_status=lambda _: {"validatorBinlog": "(stored, 4)", "newErrors": 1},
    counted=lambda _: {"errorRowsStatus": "new/ignored/resolved: 1/0/0", "newErrors": 1},
    tables=lambda _: [
        TableStatus(TableName("a", "t"), TableName("b", "t")),
        TableStatus(TableName("a", "u"), TableName("b", "u"), "Stopped", "no primary key"),
    ],
    errors=lambda config, states: [StoredError(7, config.source_id, ROW, state, "now") for state in states],
    change=change,
    cut_over=cut_over,
    forget=lambda _: None,
    beginning=lambda *_: TimePlace(Position("a-server", "mysql-bin.000003", 154), known=False),
)


def joining(configs: Mapping[str, SubtaskConfig]) -> dict[str, Joining]:
    asked = Joining("a number", "reload", "loading", Share(tables=(("a", "t"),)))
    return dict.fromkeys(configs, asked) if "joining" in answers() else {}


def ask(what: str) -> None:
    with (Path(os.environ["DM_HOME"]) / "asked").open("a") as file:
        file.write(f"{what}\n")


def reload(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None, *, anew: bool = False) -> Reload:
    ask(f"reload {table} {source} {anew}")
    return Reload(source or next(iter(configs)), (table,), TableName("there", table.table))


def listed(config: SubtaskConfig) -> set[TableName]:
    assert config.block_allow_list is not None
    return {TableName(each.db_name, each.tbl_name) for each in config.block_allow_list.do_tables}


def added_tables(before: SubtaskConfig, after: SubtaskConfig, _others: Mapping[str, SubtaskConfig]) -> Added:
    return Added(tuple(sorted(listed(after) - listed(before))), ())


def cancel_add(config: SubtaskConfig) -> bool:
    ask(f"cancel {config.source_id}")
    return True


JOIN_REQUESTS = JoinRequests(
    reload=reload,
    cancel_reload=joining,
    added_tables=added_tables,
    add=lambda _before, added: ask(f"add {', '.join(map(str, added.tables))}"),
    adding=lambda configs: list(joining(configs)),
    cancel_add=cancel_add,
    joining=joining,
)


def asides(configs: Mapping[str, SubtaskConfig]) -> list[Aside]:
    """One where the servers' file says so."""
    if "aside" not in answers():
        return []
    error = DMError("row-missing", operation="UPDATE", table="a.t", key="(1)", task="t")
    branch = Joining("n", "branch", "aside", Share(tables=(("a", "t"),)), (), error=report_of(error), since="then")
    here = Position("u", "bin.000001", 100)
    return [Aside(source, branch, here, replace(here, offset=250)) for source in configs]


def moving(what: str) -> Callable[[Mapping[str, SubtaskConfig], TableName, str | None], Moved]:
    """Tells what is asked of the target."""

    def move(configs: Mapping[str, SubtaskConfig], table: TableName, source: str | None) -> Moved:
        ask(f"{what} {table} {source}")
        return Moved(source or next(iter(configs)), (table,))

    return move


BRANCH_REQUESTS = BranchRequests(asides, moving("hold"), moving("release"), moving("drop"))


def as_declared(verb: type[Verb], do: Work) -> Work:
    """The work, whose answers are compared with their declaration: another one is an internal error."""
    model = model_of(verb.answer)

    def done(asked: Verb) -> Answer:
        answer = do(asked)
        if answer.get("result", True):
            model.model_validate({"result": True, "msg": "", **answer}, strict=True)
        return answer

    return done


class DeclaredOperations(Operations):
    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.work = {verb: as_declared(verb, do) for verb, do in self.work.items()}


def main() -> None:
    """The process."""
    setattr(daemon, "Operations", DeclaredOperations)  # noqa: B010  its module does not export it
    progress = ProgressAtTarget(demand_sole_run, operate_binlog, operate_structure)
    servers = Servers(
        verify_source, check, forget_progress, place_of, begin_at, until_of, final_place, progress, demand_readable,
        hold_place, ShardLocks(locks, decide), VALIDATIONS, JOIN_REQUESTS, StoredProgress(stored, remove_stored),
        branches=BRANCH_REQUESTS,
    )  # fmt: skip
    fork_hosts(fake_host.run)
    parts = DaemonParts(servers, first_unit, patience=2.0)
    sys.exit(run(parts))
