"""Inspects the closed files when a relay starts: each must have an index, and the length that its index says.

The first line of an index and the file's size answer both without reading the file. A file without an index, or with an
index of an older format, is read once and gets a new index. Damage is reported as a reader reports it, and the pull
fetches the file again. The inspection runs beside the pull: neither the pull nor a reader waits for it.
"""

from __future__ import annotations

import threading

from dm.errors import DMError
from dm.relay.refetch import following_name
from dm.relaylog import damage
from dm.relaylog.continuity import end_is_proven
from dm.relaylog.index import read_seal, write_index
from dm.relaylog.layout import RelayDirectory, SubDirectory
from dm.relaylog.scan import scan


def inspect(directory: RelayDirectory, over: threading.Event) -> int:
    """Inspect every closed file, until `over` is set; returns how many had to be read."""
    files = [(sub, name) for sub in directory.sub_directories() for name in sub.files()]
    read = 0
    for sub, name in files[:-1]:
        if over.is_set():
            break
        try:
            read += _inspect(directory, sub, name)
        except (FileNotFoundError, DMError) as error:
            if isinstance(error, DMError) and error.name != "relay-file-missing":
                raise
            continue  # purged since the listing
        except OSError as error:
            raise DMError("relay-storage-failed", path=sub.path) from error
    return read


def _inspect(directory: RelayDirectory, sub: SubDirectory, name: str) -> bool:
    if _is_newest(directory, sub, name):
        return False  # the file after it had never begun and was removed: the pull continues in this one
    size = sub.file(name).stat().st_size
    seal = read_seal(sub.idx(name))
    if seal is not None and seal.size == size:
        return False
    if seal is not None and seal.final:
        damage.report(sub, name, min(size, seal.size), f"it has {size} bytes of {seal.size}")
        return False
    found = scan(sub.file(name), None, "mariadb" if sub.is_mariadb else "mysql", trust=True)
    if found is None or found.what or found.stopped != found.index.complete:
        stopped, what = (0, "") if found is None else (found.stopped, found.what)
        damage.report(sub, name, stopped, what or "no whole event stands there")
    elif not end_is_proven(directory, sub, name, found):
        damage.report(sub, name, found.stopped, "its end can't be proven")
    elif not _is_newest(directory, sub, name):
        found.index.next_file = following_name(sub, name)
        found.index.final = bool(found.index.next_file)
        write_index(sub.idx(name), found.index)
    return True


def _is_newest(directory: RelayDirectory, sub: SubDirectory, name: str) -> bool:
    return directory.last() == sub and sub.files()[-1:] == [name]
