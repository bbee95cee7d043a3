"""What keeps a subtask from getting on though its own process runs: its relay rests, or a server does not answer.

A subtask's stage is about its own process. A syncer that has read its relay's files to the end shows nothing but
Running while that relay rests on an error; a unit whose target is down flips between Running and Paused. So the status,
its table, `wait`, the verbs that set to work, and the metrics ask here, and none decides for itself.

- A subtask depends on its source's relay while it waits for it, while it reads its files, and while its load runs: what
  comes next has to be stored meanwhile.
- A server is said to answer, or not to, only by somebody who has asked: by what the run under way says since the status
  was asked for, or by the error that the subtask or the relay rests on. Otherwise nobody knows (None).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from dm.errors import CATALOGUE
from dm.worker.job import Job
from dm.worker.supervisor import Supervisor

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
