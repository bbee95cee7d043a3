"""DM's `query-status` JSON (dm/proto) from the supervisor's state, and what holds a running subtask up.

Field names and forms are DM's, so scripts written for it go on working: 64-bit integers are strings, as in protobuf's
JSON mapping; positions print as `(mysql-bin.000001, 154)`. Our own fields stand beside DM's and never replace them. A
unit supplies its own fields: `dm/syncer/sync_status.py`, `dm/dumper/dump_run.py`, `dm/loader/progress.py`,
`dm/relay/unit.py`.

A subtask's stage describes only its own process. A syncer that has read its relay's files to the end shows Running
while that relay rests on an error; a unit whose target is down alternates between Running and Paused. So the status,
its table, `wait`, the verbs that start work and the metrics all use the rules here:

- A subtask depends on its source's relay while it waits for it, while it reads its files, and while its load runs,
  since the files for the sync must be stored meanwhile.
- Whether a server answers is known only from a process that has asked it: from the status of the current run, taken
  after the request, or from the error that the subtask or the relay rests on. Otherwise the answer is unknown (None).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, cast

from dm.config import SourceConfig
from dm.errors import CATALOGUE, DMError
from dm.unit import JSON
from dm.worker.job import Job
from dm.worker.supervisor import Supervisor

# int64 and uint64 in dmworker.proto; protobuf's JSON mapping writes these as strings.
_INT64 = frozenset(
    {
        "totalEvents", "totalTps", "recentTps", "secondsBehindMaster", "totalRows", "totalRps", "recentRps",
        "ioTotalBytes", "totalTables", "bps", "totalTransactions",
    }
)  # fmt: skip
_INT64_OF_LOAD = frozenset({"finishedBytes", "totalBytes"})  # of dump they are doubles

HEARD_SECONDS: Final = 15.0  # since a unit said something that is still taken for present

_KEY_OF_UNIT = {"Dump": "dump", "Load": "load", "Sync": "sync"}


def source_status(supervisor: Supervisor, name: str) -> dict[str, JSON]:
    """DM's sourceStatus."""
    relay = supervisor.sources[name].relay
    return {
        "source": name,
        "worker": supervisor.worker,
        "result": None,
        "relayStatus": None if relay is None else _relay_status(relay, supervisor.clock.time()),
    }


def _relay_status(relay: Job, now: float) -> dict[str, JSON]:
    status = {**_plain(relay.status, _INT64), **_left(relay.status, now)}
    for key in ("masterBinlog", "masterBinlogGtid", "relaySubDir", "relayBinlog", "relayBinlogGtid"):
        status.setdefault(key, "")
    status.setdefault("relayCatchUpMaster", False)
    status["sourceAnswers"] = source_answers_relay(relay)
    # A relay waits for its source by itself and says in its own result what for.
    own = status["result"] if relay.subtask.stage == "Running" and _has_errors(status.get("result")) else None
    return {**status, "stage": relay.subtask.stage, "result": relay.subtask.result() or own}


def _left(status: Mapping[str, JSON], now: float) -> dict[str, JSON]:
    """How long the source surely keeps what is read next: the moment is told by a run that may be over."""
    at = status.get("binlogPurgedAt")
    return {"binlogLeftSeconds": round(max(0.0, at - now))} if isinstance(at, int | float) else {}


def _has_errors(result: JSON) -> bool:
    return isinstance(result, dict) and bool(result.get("errors"))


def subtask_status(supervisor: Supervisor, job: Job, request: int | None) -> dict[str, JSON]:
    """DM's subTaskStatus, in answer to a request for a status as of now."""
    subtask = job.subtask
    validation = None if job.task is None else supervisor.validators.status(job.task, job.source)
    status: dict[str, JSON] = {
        "name": job.task,
        "stage": subtask.stage,
        "unit": subtask.unit or "InvalidUnit",
        "result": subtask.result(),
        "unresolvedDDLLockID": "",
        "relayRests": resting_relay(supervisor, job) is not None,
        "sourceAnswers": server_answers(job, "upstream", request),
        "targetAnswers": server_answers(job, "downstream", request),
    }
    if subtask.unit in _KEY_OF_UNIT and job.status:
        numbers = _INT64 | _INT64_OF_LOAD if subtask.unit == "Load" else _INT64
        status["unresolvedDDLLockID"] = job.status.get("unresolvedDDLLockID", "")
        said = {**job.words.now(current=job.current(request)), **job.copy.report(subtask.unit, job.status)}
        for above in ("unresolvedDDLLockID", "joining", "branches", "sourceAnswers", "targetAnswers"):
            said.pop(above, None)  # one level up, the first by DM's form
        if "listEntriesWithoutTables" in said:
            said["listEntriesWithoutTables"] = _missing_everywhere(supervisor, job, said)
        if status["sourceAnswers"] is False and "secondsBehindMaster" in said:
            said["secondsBehindMaster"] = None  # also of a run that has ended by it: nobody knows how far it is behind
        status[_KEY_OF_UNIT[subtask.unit]] = {**_plain(said, numbers), **_left(said, supervisor.clock.time())}
    if job.until is not None:
        status["until"] = str(job.until)
    if validation is not None:
        status["validation"] = validation
    return {**status, **_beside(supervisor.joins.report(job))}


def _missing_everywhere(supervisor: Supervisor, job: Job, said: Mapping[str, JSON]) -> list[JSON]:
    """The list's entries that match nothing at this source, nor at another one of the task that uses the list."""
    missing, task = cast("list[JSON]", said["listEntriesWithoutTables"]), supervisor.tasks.get(job.task or "")
    if task is None or isinstance(task.config, DMError):
        return missing
    lists = {instance.source_id: instance.block_allow_list for instance in task.config.mysql_instances}
    others = (other for other in task.jobs.values() if other is not job)
    with_it = (other.status for other in others if lists.get(other.source) == lists.get(job.source))
    told = [cast("list[JSON]", status.get("listEntriesWithoutTables", missing)) for status in with_it]
    return [entry for entry in missing if all(entry in each for each in told)]


def _plain(status: Mapping[str, JSON], as_text: frozenset[str]) -> dict[str, JSON]:
    plain: dict[str, JSON] = {}
    for key, value in status.items():
        if key in as_text and isinstance(value, int | float) and not isinstance(value, bool):
            plain[key] = str(int(value))
        else:
            plain[key] = value
    lag = status.get("secondsBehindMaster")
    if isinstance(lag, float):  # DM's field counts whole seconds
        plain["lagSeconds"] = lag
    return plain


def task_status(supervisor: Supervisor, name: str, sources: list[str], requests: Mapping[str, int]) -> dict[str, JSON]:
    """`query-status <task>`; `requests` are those for the status of each source's subtask."""
    answers: list[JSON] = [
        {
            "result": True,
            "msg": "",
            "sourceStatus": source_status(supervisor, job.source),
            "subTaskStatus": [subtask_status(supervisor, job, requests.get(job.source))],
        }
        for job in supervisor.jobs(name, sources)
    ]
    return {"result": True, "msg": "", "sources": answers}


def as_heard(job: Job) -> int | None:
    """The request that the unit's last words are taken as the answer to; None where they are too old."""
    return job.refreshed if job.words.silence <= HEARD_SECONDS else None


def heard(supervisor: Supervisor) -> list[tuple[dict[str, JSON], dict[str, JSON]]]:
    """Each source's and subtask's status, from what the units have said by themselves; on the loop's thread."""
    return [
        (
            source_status(supervisor, job.source),
            subtask_status(supervisor, job, as_heard(job)),
        )
        for _, task in sorted(supervisor.tasks.items())
        for job in task.jobs.values()
    ]


def _beside(report: Mapping[str, JSON]) -> dict[str, JSON]:
    """What is loaded beside the stream, and the branches."""
    plain: dict[str, JSON] = {}
    for name, said in report.items():
        if isinstance(said, dict):
            plain[name] = _plain(said, _INT64)
        elif isinstance(said, list):
            plain[name] = [_plain(each, _INT64) for each in said if isinstance(each, dict)]
    return plain


def all_tasks(supervisor: Supervisor, sources: Sequence[str]) -> dict[str, JSON]:
    """`query-status` without a task: a line per task, where sources are named of those on them; raises DMError."""
    for source in sources:
        supervisor.source(source)
    tasks: list[JSON] = [
        {"taskName": name, "taskStatus": _summary(supervisor, list(task.jobs.values())), "sources": [*task.jobs]}
        for name, task in sorted(supervisor.tasks.items())
        if not sources or any(source in task.jobs for source in sources)
    ]
    return {"result": True, "msg": "", "tasks": tasks}


def _summary(supervisor: Supervisor, jobs: list[Job]) -> str:
    stages = {job.subtask.stage for job in jobs}
    joins = [join for job in jobs for join in supervisor.joins.of(job.task or "", job.source)]
    if any(job.subtask.stage == "Paused" and job.subtask.errors for job in (*jobs, *joins)):
        return "Error - Some error occurred in subtask. Please run `query-status` to get more details."
    for job in jobs:
        relay = resting_relay(supervisor, job)
        if relay is not None:
            return f"Error - Relay status is {relay.subtask.stage}. Please run `query-status` to get more details."
    if "Paused" in stages:
        return "Paused"
    for stage in ("New", "Finished", "Stopped"):
        if stages == {stage}:
            return stage
    return "Running"


def source_line(supervisor: Supervisor, name: str) -> dict[str, JSON]:
    """`operate-source show`: what is known of a source, without its password."""
    source = supervisor.sources[name]
    config = source.config
    address: JSON = None
    problem: JSON = None
    if isinstance(config, SourceConfig):
        address = {"host": config.endpoint.host, "port": config.endpoint.port, "user": config.endpoint.user}
    else:
        problem = cast("JSON", config.report())
    return {
        "result": True,
        "msg": "",
        "source": name,
        "worker": supervisor.worker,
        "from": address,
        "problem": problem,
        "tasks": [*supervisor.tasks_of(name)],
        "relayStatus": None if source.relay is None else _relay_status(source.relay, supervisor.clock.time()),
    }


Scope = Literal["upstream", "downstream"]

_UNREACHABLE: Final = frozenset({CATALOGUE["connection-failed"].code, CATALOGUE["connection-lost"].code})
_SAID_OF: Final[Mapping[Scope, str]] = {"upstream": "sourceAnswers", "downstream": "targetAnswers"}


def resting_relay(supervisor: Supervisor, job: Job) -> Job | None:
    """The relay that a subtask at work depends on, where that relay rests: paused by a person, or by an error."""
    relay = supervisor.sources[job.source].relay
    if relay is None or relay.subtask.stage != "Paused" or job.subtask.stage != "Running":
        return None
    waits = job.waiting is not None and job.subtask.unit is not None
    return relay if "Sync" in job.subtask.units and (waits or job.reads_relay) else None


def held_up(supervisor: Supervisor, job: Job) -> bool:
    """Whether it is known why a subtask that was set to work does not begin: its relay rests, or tries again."""
    relay = supervisor.sources[job.source].relay
    waits = job.waiting is not None and relay is not None and bool(relay.troubles)
    return waits or resting_relay(supervisor, job) is not None


def server_answers(job: Job, scope: Scope, request: int | None) -> bool | None:
    """Whether the subtask's source or target answers; None where nobody knows."""
    if any(_unreachable(report, scope) for report in job.subtask.errors):
        return False
    said = job.status.get(_SAID_OF[scope])
    return bool(said) if said is not None and job.current(request) and not job.words.of_before else None


def source_answers_relay(relay: Job) -> bool | None:
    """Whether the source answers its relay; None where nobody knows."""
    found = relay.troubles
    if any(_unreachable(report, "upstream") for report in found):
        return False
    return True if relay.subtask.stage == "Running" and not found and relay.status.get("relayBinlog") else None


def _unreachable(report: object, scope: Scope) -> bool:
    return isinstance(report, dict) and report.get("ErrCode") in _UNREACHABLE and report.get("ErrScope") == scope
