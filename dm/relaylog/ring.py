"""The newest bytes of the relay's files in shared memory: the form of the ring, and how a reader finds it.

It is a shortcut in front of the files, which have everything, and not much of one: woken readers of the page cache are
about as quick (`scripts/measure_relay_reading.py`). So whatever is in doubt is left to the file reader.

The writer overwrites the oldest bytes and waits for nobody. There is no lock that a stopped or killed reader could
hold, and nothing that a reader writes: it maps the ring read-only. So it has to find out for itself whether what it
copied was overwritten meanwhile. Every byte has a logical place, counted from the start of the ring and never reused;
it lies at that place modulo the capacity.

    writer   RESERVED = end of what comes;   copy the bytes;   HEAD = the same end
    reader   head = HEAD;   copy bytes [at, ..head);   good only if  at >= RESERVED - capacity  now

If the writer began to overwrite a byte before or while it was copied, then RESERVED was raised before that, and the
reader's last look sees it. Which bytes of which file these are says a table of segments (logical place, sub-directory,
file, offset). It has two slots: the writer fills the idle one and raises VERSION, whose lowest bit names the slot; a
reader that finds another VERSION than before throws away what it has read and looks again. Each word is 8 aligned
bytes, which CPython moves in one instruction (native format, memcpy of a constant size).

That needs stores to become visible in the order of the program, and loads to be done in it. x86-64 promises both for
plain moves, but not for the streaming stores that the C library may use for large blocks. So both ends put a full fence
before and after the copy: taking and giving back a lock that nobody else knows is a locked instruction. Every step is a
call of its own into the interpreter, so no compiler exchanges them. Other processors promise less, and there a lock is
no full fence: the ring is not made and everybody reads files. Whatever the processor does, an event from the ring
is verified as one from a file is.

The memory has no name. It lies in a file that is deleted as soon as it is made; readers open it as
/proc/<pid>/fd/<n> of the writer, which a small file in the relay directory tells, and compare inode and token. So a
killed writer leaves nothing behind but a pointer to nowhere, and the kernel frees the memory with its last user. A
reader looks at the pointer before each read: the next relay replaces it before it cuts anything off, so that nobody
goes on in the ring of the one before. All of the memory is reserved at the start: a page that can't be had later would
end the relay by SIGBUS.
"""

from __future__ import annotations

import json
import os
import platform
import stat
import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, NamedTuple

from dm.atomic_file import write_atomically

POINTER_NAME: Final = ".relay.ring"
# Not a disk: what is mapped there would be written back to it. The file has a random name, and soon none.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108

FORM: Final = int.from_bytes(b"dm-ring1", "little")
# The words at the start. WAKE is the one that is stored by write(2), because only that wakes inotify.
FORM_WORD, TOKEN, CAPACITY, VERSION, RESERVED, HEAD, WAKE = range(7)
WORDS_SIZE: Final = 56
TABLE_SIZE: Final = 8192
TABLES_AT: Final = (4096, 4096 + TABLE_SIZE)
DATA_AT: Final = 4096 + 2 * TABLE_SIZE


class Segment(NamedTuple):
    """From the logical place `at` on, up to the next segment: this file's bytes from `offset` on."""

    at: int
    sub: str
    file: str
    offset: int


def possible() -> bool:
    """Whether this machine keeps the order of loads and stores, and lets readers find memory without a name."""
    return platform.machine() in {"x86_64", "AMD64"} and os.path.isdir("/proc/self/fd")


def fence(lock: threading.Lock) -> None:
    """Let all loads and stores be done before the next ones; `lock` is the caller's own."""
    with lock:
        pass


def encode_table(segments: list[Segment]) -> bytes:
    """The table as bytes, its length in front."""
    text = json.dumps(segments).encode()
    return len(text).to_bytes(4, "little") + text


def decode_table(data: bytes) -> list[Segment]:
    """The inverse of `encode_table`, of a whole slot."""
    size = int.from_bytes(data[:4], "little")
    return [Segment(*fields) for fields in json.loads(data[4 : 4 + size])]


@dataclass(frozen=True, slots=True)
class Pointer:
    """Where the ring of a relay directory is."""

    pid: int
    descriptor: int
    device: int
    inode: int
    token: int

    def store(self, root: Path) -> None:
        """Let readers find it; they see that a file appears."""
        write_atomically(root / POINTER_NAME, json.dumps(asdict(self)).encode(), durable=False)

    @staticmethod
    def load(root: Path) -> Pointer | None:
        """What the relay says; None for anything that is no pointer."""
        try:
            found = json.loads((root / POINTER_NAME).read_bytes())
            return Pointer(**{field: int(value) for field, value in found.items()})
        except (OSError, ValueError, TypeError, AttributeError):
            return None

    def open(self) -> int | None:
        """A descriptor of the ring's memory; None when it is gone, or when a later process has the pid."""
        path = f"/proc/{self.pid}/fd/{self.descriptor}"
        try:
            if not self._is_ours(os.stat(path)):  # before it is opened: that can do something to what is no file
                return None
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
        except OSError:
            return None
        if self._is_ours(os.fstat(descriptor)):
            return descriptor
        os.close(descriptor)
        return None

    def _is_ours(self, found: os.stat_result) -> bool:
        return (
            stat.S_ISREG(found.st_mode)
            and (found.st_dev, found.st_ino, found.st_uid) == (self.device, self.inode, os.geteuid())
            and found.st_size > DATA_AT
        )
