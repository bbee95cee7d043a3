"""What one member asks another: a verb, over the API, with the token that only members of this cluster know.

The member that a person has asked checks the person's permission and writes the audit line. The other one does what a
member asks, and does not pass it on again: it answers for itself alone.

An error of the other member is told as it came, with its code and its way out.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final, cast

from dm.clock import Clock, SystemClock
from dm.cluster.membership import Membership
from dm.errors import CATALOGUE, DMError, ErrorReport
from dm.unit import JSON
from dm.verbs.declaration import READS, Verb
from dm.worker.exchange import TlsFiles, encrypted, over_port

Answer = dict[str, JSON]

ANSWER_SECONDS: Final = 600.0  # as `dmctl` waits
LOOK_SECONDS: Final = 10.0  # of what only looks: a host that is frozen must not keep the status of others back
_BY_CODE: Final = {kind.code: name for name, kind in CATALOGUE.items()}


class ForwardedError(DMError):
    """An error that another member has told."""

    def __init__(self, report: ErrorReport, answer: Answer) -> None:
        super().__init__(_BY_CODE.get(report["ErrCode"], "internal-error"), what="")
        self.told_report = report
        self.answer = answer

    @property
    def message(self) -> str:
        """In the words of the other member."""
        return self.told_report["Message"]

    @property
    def workaround(self) -> str:
        """In the words of the other member."""
        return self.told_report["Workaround"]

    @property
    def cause(self) -> str:
        """In the words of the other member."""
        return self.told_report["RawCause"]


class Forwarding:
    """Asks other members."""

    def __init__(self, membership: Membership, files: TlsFiles | None, clock: Clock | None = None) -> None:
        self._membership = membership
        self._files = files
        self._clock = clock or SystemClock()
        self._heard: dict[str, float] = {}

    def heard_of(self, member: str) -> str:
        """How long ago a member has answered last, in words."""
        at = self._heard.get(member)
        if at is None:
            return f"member {member} has not been heard by this one"
        return f"member {member} was heard {self._clock.monotonic() - at:.0f} s ago"

    def ask(self, member: str, verb: Verb, seconds: float | None = None) -> Answer:
        """What the member answers within the time; raises DMError."""
        known = self._membership.members.known().get(member)
        if known is None:
            raise DMError("member-unknown", member=member, there=", ".join(self._membership.members.known()))
        headers = {"Authorization": f"Bearer {self._membership.record.token}"}
        seconds = seconds or (LOOK_SECONDS if verb.permission is READS else ANSWER_SECONDS)
        try:
            _, text = over_port(known.address, verb.request(), headers, seconds, self._demand())
            answer: Any = json.loads(text)
        except (OSError, ValueError) as error:
            problem = str(error) or type(error).__name__
            raise DMError("member-unreachable", member=member, address=known.address, problem=problem) from error
        if not isinstance(answer, dict) or "result" not in answer:
            problem = "what it answers is no answer of a dm-worker"
            raise DMError("member-unreachable", member=member, address=known.address, problem=problem)
        self._heard[member] = self._clock.monotonic()
        if answer["result"]:
            return answer
        if "error" not in answer:
            problem = str(answer.get("msg"))
            raise DMError("member-unreachable", member=member, address=known.address, problem=problem)
        raise ForwardedError(cast(ErrorReport, answer["error"]), answer)

    def _demand(self) -> Callable[[Any], None]:
        """What the other end must be before anything is sent to it."""
        return (lambda _: None) if self._files is None else encrypted(self._files)
