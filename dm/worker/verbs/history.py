"""The timeline, and the curves of lag and rate."""

from __future__ import annotations

from dm.unit import JSON
from dm.verbs import history as declared
from dm.worker.history.timeline import Happening
from dm.worker.verb_work import Answer, VerbWork, does

MOST_LINES = 10_000


class HistoryVerbs(VerbWork):
    """Tell what happened before."""

    @does(declared.ShowTimeline)
    def timeline(self, asked: declared.ShowTimeline) -> Answer:
        """The newest last; also of tasks that are gone."""
        sources = frozenset(asked.source)

        def wanted(one: Happening) -> bool:
            return (not asked.task or one.task == asked.task) and (not sources or one.source in sources)

        found = self._means.history.timeline.newest(min(asked.lines, MOST_LINES), wanted)
        return {"happenings": [one.to_json() for one in reversed(found)]}

    @does(declared.ShowCurves)
    def curves(self, asked: declared.ShowCurves) -> Answer:
        """A curve for each source; raises DMError for a task that is not there."""
        jobs = self._loop.call(lambda: self._supervisor.jobs(asked.task, asked.source))
        curves: list[JSON] = []
        for source in [job.source for job in jobs]:
            points = self._means.history.curves.of(asked.task, source)
            told: list[JSON] = [{"at": one.at, "lag": one.lag, "rate": one.rate} for one in points]
            curves.append({"source": source, "points": told})
        return {"curves": curves}
