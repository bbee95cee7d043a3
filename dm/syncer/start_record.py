"""That a subtask has had a checkpoint, on the host's disk, beside what its syncer keeps there.

Progress is at the target. Where it is gone (a dropped `meta-schema`, another target, a restored one), a task looks as
if it had never run. An incremental one would begin at the source's end and leave out quietly what lies between; with a
`meta` that it has left long ago it would apply changes twice. So a run notes that there is a checkpoint, and the `meta`
of its file, before it applies anything. A later run without a checkpoint begins only at a `meta` that is new.

The note is no progress: nothing is applied because of it. It stays at `stop-task`, and goes with `start-task
--remove-meta`. On another host there is none, so a task that is continued there looks new if its progress is gone.
"""

from __future__ import annotations

import json
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.config.start_point import StartPoint
from dm.errors import DMError


class StartRecord:
    """The note of one subtask."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def demand_new(self, meta: StartPoint | None, task: str, source: str) -> None:
        """Raise DMError `checkpoint-gone` unless the task has had no checkpoint, or `meta` is another one than then."""
        found = self._read()
        if found is not None and (meta is None or found == _text(meta)):
            raise DMError("checkpoint-gone", task=task, source=source)

    def put(self, meta: StartPoint | None) -> None:
        """Note that there is a checkpoint, durably; raises DMError."""
        text = _text(meta)
        if self._read() == text:
            return
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(self._path, text.encode(), durable=True)
        except OSError as error:
            raise DMError("spool-not-written", file=self._path) from error

    def _read(self) -> str | None:
        try:
            return self._path.read_text(errors="replace")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise DMError("spool-not-written", file=self._path) from error


def _text(meta: StartPoint | None) -> str:
    return json.dumps(None if meta is None else meta.model_dump(mode="json"))
