"""The verbs of the daemon itself."""

from __future__ import annotations

import os
from typing import cast

from dm.errors import DMError
from dm.unit import JSON
from dm.verbs.program import Daemon, Encrypt, Shutdown
from dm.worker.installed import installed_version
from dm.worker.verb_work import Answer, VerbWork, does


class ProgramVerbs(VerbWork):
    """Its processes, its end, its key."""

    @does(Daemon)
    def daemon(self, _asked: Daemon) -> Answer:
        """The process ids of the unit hosts, by host name."""
        processes = cast("JSON", self._loop.call(self._supervisor.hosts.processes))
        return {
            "version": installed_version(), "pid": os.getpid(), "processes": processes,
        }  # fmt: skip

    @does(Shutdown)
    def end(self, _asked: Shutdown) -> Answer:
        """It answers before it ends."""
        self._means.shutdown()
        return {"pid": os.getpid()}

    @does(Encrypt)
    def encrypt(self, asked: Encrypt) -> Answer:
        """The form in which files may hold a password."""
        if not asked.text:
            raise DMError("usage", problem="the password is empty", hint="dmctl encrypt '<password>'")
        return {"cipherText": self._read.encrypted(asked.text)}
