"""Verbs of relays."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final, Literal

from dm.errors import DMError
from dm.verbs.declaration import OPERATES, Verb, line, option, shape
from dm.verbs.sources import SOURCES

_PURGED: Final = line(
    "PurgedLine", removedFiles=list[str], removedBytes=str, removedDirectories=list[str], keptBack=str
)
PURGED: Final = shape("Purged", sources=[_PURGED])

SourcesOfRelays = Annotated[tuple[str, ...], option("--source -s", "only this source; may be repeated", sent=False)]


class OperatedRelay(Verb, permission=OPERATES, answer=SOURCES):
    """A relay that is set to work or to rest; at the command line several."""

    operation: ClassVar[Literal["start", "stop", "pause", "resume"]]

    sources: SourcesOfRelays = ()
    source: str = ""

    def demand_consistent(self) -> None:
        """Raise DMError without a source."""
        if not self.sources:
            raise DMError("usage", problem="no source is named", hint=f"dmctl {self.name} -s <source>")


class StartRelay(OperatedRelay, name="start-relay", route="POST sources/{source}/relay/start"):
    """Pull the sources' binlog into relay files from now on."""

    operation = "start"

    worker: Annotated[
        str, option("--worker -w", "of several hosts, the member that is to pull: the source's owner")
    ] = ""


class StopRelay(OperatedRelay, name="stop-relay", route="POST sources/{source}/relay/stop"):
    """Pull no more; files stay."""

    operation = "stop"


class PauseRelay(OperatedRelay, name="pause-relay", route="POST sources/{source}/relay/pause"):
    """Let the relay rest until resume-relay."""

    operation = "pause"


class ResumeRelay(OperatedRelay, name="resume-relay", route="POST sources/{source}/relay/resume"):
    """Go on pulling after pause-relay, or after an error."""

    operation = "resume"


class PurgeRelay(Verb, name="purge-relay", route="POST sources/{source}/relay/purge", answer=PURGED):
    """Remove relay files that no task needs any more."""

    filename: Annotated[str, option("--filename -f", "the relay files before this one go, as mysql-bin.000006")] = ""
    sub_dir: Annotated[str, option("--sub-dir", "the sub-directory the file is in; the newest when left out")] = ""
    sources: SourcesOfRelays = ()
    source: str = ""

    def demand_consistent(self) -> None:
        """Raise DMError unless one source and one file are named."""
        if len(self.sources) != 1 or not self.filename:
            problem = "the file is of one source" if len(self.sources) > 1 else "source or file is not named"
            raise DMError("usage", problem=problem, hint="dmctl purge-relay -s <source> --filename mysql-bin.000006")
