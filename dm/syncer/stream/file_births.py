"""Whether the binlog files being read are the ones that were read before: see `dm.progress.file_birth`."""

from __future__ import annotations

import threading

from dm.errors import DMError
from dm.position import Position
from dm.progress.file_birth import FileBirth, made_again


class FileBirths:
    """The files of a run, from L's file on; the reader adds them, the progress writer asks."""

    def __init__(self, stored: FileBirth | None = None) -> None:
        self._lock = threading.Lock()
        self._births = [] if stored is None else [stored]  # in stream order

    def seen(self, birth: FileBirth) -> bool:
        """Note the file being read; returns whether it is new. Raises DMError if it replaced another of its name."""
        with self._lock:
            for known in self._births:
                if (known.server_uuid, known.file) == (birth.server_uuid, birth.file):
                    if known.created == birth.created:
                        return False
                    raise DMError("source-reset", what=made_again(known, birth.created))
            self._births.append(birth)
            return True

    def of(self, position: Position) -> FileBirth | None:
        """L's file; None until it is known. Earlier files are forgotten."""
        with self._lock:
            for at, birth in enumerate(self._births):
                if birth.is_of(position):
                    del self._births[:at]
                    return birth
            return None
