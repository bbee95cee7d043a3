"""`support-bundle`: one file for somebody who can't log in here."""

from __future__ import annotations

import base64
import threading

from dm.clock import SystemClock
from dm.verbs.support import SupportBundle
from dm.worker.metrics import Metrics
from dm.worker.support_bundle import Collection
from dm.worker.verb_work import Answer, Means, VerbWork, does


class SupportVerbs(VerbWork):
    """Collects one at a time; the file is written by the one who asks."""

    def __init__(self, means: Means) -> None:
        super().__init__(means)
        self._one = threading.Lock()

    @does(SupportBundle)
    def bundle(self, _asked: SupportBundle) -> Answer:
        """A tar.gz in base64."""
        metrics = Metrics(self._loop, self._supervisor, cut_overs=self._means.cut_overs.all_told)
        with self._one:
            collection = Collection(self._loop, self._supervisor, self._servers.described, metrics, SystemClock())
            content = collection.packed()
        return {
            "file": collection.name,
            "content": base64.b64encode(content).decode("ascii"),
            "problems": [*collection.problems],
        }
