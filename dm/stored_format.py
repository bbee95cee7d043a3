"""Numbers of stored formats: what a newer dm has stored is refused by name, what an older one has stored is migrated.

A newer dm may have stored what this one would read wrongly, or would leave out without a word. So whatever a run reads
again after an upgrade or a step back carries a number, and its reader compares this before it reads anything else.

A number is raised when an older dm could not read what is stored, and only then. What was stored before there were
numbers counts as 0. The reader of a format migrates older numbers when it opens it. Five things carry one:

- The registry, for all of `$DM_HOME` but what is listed below: files, intents, tokens, settings.
- The progress tables of a task, together, cut-over excepted.
- The row of a cut-over, which is read without the other tables.
- The index of a relay file. The file is the source's own bytes, and its directory is laid out as DM's.
- The plan of a dump, for all its files; the list of prepared XA transactions, for the files beside it.

The timeline and the curves have numbers of their own, and are put aside where these differ (dm/worker/history). Other
spool files are deleted by the run that finds them, and an unreadable hold of relay files holds all: they need none. The
logs are written for people and programs; dm does not read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from dm.errors import DMError


@dataclass(frozen=True, slots=True)
class StoredFormat:
    """One format: its name in messages, the newest number that this dm knows, and the way out without a newer dm."""

    what: str
    number: int
    way_out: str

    def demand_known(self, found: object, where: object) -> int:
        """The number that was found, as one; raises DMError for a newer one, ValueError for what is no number."""
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise ValueError(f"its format is {found!r}")
        if found > self.number:
            raise DMError(
                "stored-format-newer", what=self.what, where=where, found=found, known=self.number, way=self.way_out
            )
        return found


REGISTRY: Final = StoredFormat("the registry", 1, "put back the copy of DM_HOME from before the upgrade")
PROGRESS: Final = StoredFormat(
    "the progress", 2, "load the task again under another name; its tables stay until `dmctl forgotten` drops them"
)
CUT_OVER: Final = StoredFormat("the row of a cut-over", 1, "let the dm that began the cut-over end it")
RELAY_INDEX: Final = StoredFormat(
    "the index of a relay file", 2, "delete the file that is named: dm makes it anew from the relay file beside it"
)
DUMP: Final = StoredFormat("the plan of a dump", 1, "dump again: stop the task, and start it with --remove-meta")
PREPARED: Final = StoredFormat(
    "the list of prepared XA transactions", 1, "let that dm run the task until XA RECOVER at the source lists nothing"
)
FORMATS: Final = (REGISTRY, PROGRESS, CUT_OVER, RELAY_INDEX, DUMP, PREPARED)
