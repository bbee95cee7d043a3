"""Verbs of sources: the servers that tasks migrate from."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from dm.errors import DMError
from dm.verbs import answers
from dm.verbs.declaration import FILE, OPERATES, READS, ConfigFile, Verb, VerbGroup, argument, option

GROUPS = (VerbGroup("operate-source", "Add, update, stop and show sources."),)

Files = Annotated[tuple[ConfigFile, ...], argument("source files", FILE)]


class CreateSources(Verb, name="operate-source create", route="POST sources", answer=answers.SOURCES):
    """Add the sources of these files: all or none."""

    files: Files


class UpdateSources(Verb, name="operate-source update", route="PUT sources", answer=answers.SOURCES):
    """Replace the files of sources that no running task uses."""

    files: Files


class StopSources(Verb, name="operate-source stop", route="POST sources/stop", answer=answers.STOPPED):
    """Forget sources that no task uses, and remove their relay files."""

    names: Annotated[tuple[str, ...], argument("source ids, or their files", sent=False)]
    sources: tuple[str, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    keep_relay: Annotated[
        bool, option("--keep-relay", "leave the relay files: a source may have purged what they hold")
    ] = False


class ShowSources(Verb, name="operate-source show", route="GET sources", permission=READS, answer=answers.SOURCES):
    """List sources with their servers, relays and tasks."""

    source: Annotated[tuple[str, ...], argument("source ids", name="names")] = ()


# Verbs of relays.

SourcesOfRelays = Annotated[tuple[str, ...], option("--source -s", "only this source; may be repeated", sent=False)]


class OperatedRelay(Verb, permission=OPERATES, answer=answers.SOURCES):
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


class StopRelay(OperatedRelay, name="stop-relay", route="POST sources/{source}/relay/stop"):
    """Pull no more; files stay."""

    operation = "stop"


class PauseRelay(OperatedRelay, name="pause-relay", route="POST sources/{source}/relay/pause"):
    """Let the relay rest until resume-relay."""

    operation = "pause"


class ResumeRelay(OperatedRelay, name="resume-relay", route="POST sources/{source}/relay/resume"):
    """Go on pulling after pause-relay, or after an error."""

    operation = "resume"


class PurgeRelay(Verb, name="purge-relay", route="POST sources/{source}/relay/purge", answer=answers.PURGED):
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
