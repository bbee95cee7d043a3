"""Verbs of the files that the daemon keeps, and of its settings."""

from __future__ import annotations

from typing import Annotated, Final

from dm.verbs.declaration import ASKED, READS, TASK, Verb, VerbGroup, argument, option, shape

CONFIG: Final = shape(
    "ConfigTold",
    sources=list[dict[str, str]],
    tasks=list[dict[str, str]],
    relays=list[str],
    worker=dict[str, str],
)
FILE: Final = shape("FileTold", cfg=str)
SETTINGS: Final = shape("SettingsTold", worker=dict[str, str])

GROUPS = (
    VerbGroup(
        "config", "Show, export and import files and settings. Files are of sources and tasks, settings of dm-worker."
    ),
)

File = Annotated[str | None, option("--path -p", "write it to this file", sent=False)]
Directory = Annotated[str, option("--path -p", "the directory")]


class ShowConfig(Verb, name="config show", route="GET config", permission=READS, answer=CONFIG):
    """List sources and tasks with the files they were made of, and the settings of dm-worker."""


class ShownFile(Verb, permission=READS, answer=FILE):
    """A file that the daemon keeps."""

    file: File = None


class ShowTaskFile(ShownFile, name="config task", route="GET config/task/{task}", division=ASKED):
    """Show the file of a task, with passwords masked."""

    task: Annotated[str, argument("the task's name", TASK)]


class ShowSourceFile(ShownFile, name="config source", route="GET config/source/{source}"):
    """Show the file of a source, with passwords masked."""

    source: Annotated[str, argument("the source's id")]


class WorkerSettings(Verb, route="GET config/worker", permission=READS, answer=SETTINGS):
    """Show the settings of dm-worker."""


class ChangeWorker(Verb, name="config worker", route="PUT config/worker", answer=SETTINGS):
    """Show the settings of dm-worker, or change them: at once, and for its next starts."""

    log_level: Annotated[str | None, option("--log-level", "debug, info, warn or error")] = None
    log_max_size: Annotated[
        str | None, option("--log-max-size", "size of a log file before the next one is begun, as 100M")
    ] = None
    log_max_backups: Annotated[
        int | None, option("--log-max-backups", "how many full log files of a process are kept", least=0)
    ] = None
    history_max_size: Annotated[
        str | None, option("--history-max-size", "size of the timeline and the curves together, as 16M")
    ] = None

    def changes(self) -> dict[str, str]:
        """The settings that are given, by their names in the registry."""
        named = {
            "log-level": self.log_level, "log-max-size": self.log_max_size, "log-max-backups": self.log_max_backups,
            "history-max-size": self.history_max_size,
        }  # fmt: skip
        return {name: str(value) for name, value in named.items() if value is not None}


class ExportConfig(Verb, name="config export", permission=READS):
    """Write the files of all sources and tasks to a new directory, in DM's layout, with passwords masked."""

    directory: Directory = "./configs"


class ImportConfig(Verb, name="config import"):
    """Add the sources and start the tasks of a directory that `config export` wrote, here or in DM."""

    directory: Directory = "./configs"
