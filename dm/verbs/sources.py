"""Verbs of sources: the servers that tasks migrate from."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import FILE, READS, ConfigFile, Verb, VerbGroup, argument, line, option, shape

SOURCES: Final = shape("SourcesTold", sources=[line("SourceLine", more=True)], may={"warnings": list[str]})
_RELAY_OF_STOPPED: Final = {
    "removedFiles": int, "removedBytes": str, "left": str, "problem": str, "keptFiles": int, "keptBytes": str
}  # fmt: skip
STOPPED: Final = shape("SourcesStopped", sources=[line("StoppedLine", relayDirectory=str, may=_RELAY_OF_STOPPED)])

GROUPS = (VerbGroup("operate-source", "Add, update, stop and show sources."),)

Files = Annotated[tuple[ConfigFile, ...], argument("source files", FILE)]


class CreateSources(Verb, name="operate-source create", route="POST sources", answer=SOURCES):
    """Add the sources of these files: all or none."""

    files: Files
    worker: Annotated[
        str, option("--worker -w", "of several hosts, the member that is to run them, or a label as zone=a")
    ] = ""


class UpdateSources(Verb, name="operate-source update", route="PUT sources", answer=SOURCES):
    """Replace the files of sources that no running task uses."""

    files: Files


class StopSources(Verb, name="operate-source stop", route="POST sources/stop", answer=STOPPED):
    """Forget sources that no task uses, and remove their relay files."""

    names: Annotated[tuple[str, ...], argument("source ids, or their files", sent=False)]
    sources: tuple[str, ...] = ()
    files: tuple[ConfigFile, ...] = ()
    keep_relay: Annotated[
        bool, option("--keep-relay", "leave the relay files: a source may have purged what they hold")
    ] = False


class ShowSources(Verb, name="operate-source show", route="GET sources", permission=READS, answer=SOURCES):
    """List sources with their servers, relays and tasks."""

    source: Annotated[tuple[str, ...], argument("source ids", name="names")] = ()
