"""Asking a run for something beside its work, and the error that comes back from another process."""

from __future__ import annotations

from dm.errors import CATALOGUE, DMError, ErrorReport
from dm.unit import JSON
from dm.worker.job import Job, Question
from dm.worker.loop import Loop


def answer_of(loop: Loop, job: Job, question: Question, seconds: float) -> JSON:
    """What the run that was asked says; raises DMError, `unit-not-there` as soon as it is another run's turn."""
    loop.wait_until(lambda: question.request in job.answers or job.host_run != question.run, seconds)
    answered = loop.call(lambda: job.answers.pop(question.request, None))
    if answered is None:
        raise DMError("unit-not-there", question=question.what)
    answer, report = answered
    if report is not None:
        raise AnsweredError(report)
    return answer


class AnsweredError(DMError):
    """The error of another process, known by its report."""

    def __init__(self, report: ErrorReport) -> None:
        name = next(kind.name for kind in CATALOGUE.values() if kind.code == report["ErrCode"])
        super().__init__(name, cause=report["RawCause"])
        self._report = report

    @property
    def message(self) -> str:
        """As it came."""
        return self._report["Message"]

    @property
    def workaround(self) -> str:
        """As it came."""
        return self._report["Workaround"]
