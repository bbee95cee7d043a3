"""A registry moves between the file of a single host and etcd.

The key `cluster` is written last. A move that is cut short leaves rows without that key, and the next one removes them
first. Nothing runs meanwhile: the home is locked, and no member lives.

After a move the old place holds no registry any more, so that no task runs twice. Of a single host's file a copy stays
beside it (`registry.sqlite.moved`). Of a cluster its number stays with the homes that were its members, and they refuse
to run without it.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from dm.clock import SystemClock
from dm.cluster.etcd import Etcd, KeyChange, KeysFound, in_parts
from dm.cluster.etcd_access import EtcdAccess
from dm.cluster.members import FORMATS_KEY, MEMBERS, ClusterMember, ClusterRecord
from dm.cluster.membership import HomeMark
from dm.cluster.mirror import CLUSTER_KEY
from dm.errors import DMError
from dm.worker.home import Home
from dm.worker.installed import installed_version
from dm.worker.registry import Registry
from dm.worker.shared_registry import ROWS, put_rows, rows_of


def init(access: EtcdAccess, prefix: str) -> str:
    """Make an empty cluster; gives its number. Raises DMError."""
    with _connected(access) as etcd:
        return _made(etcd, prefix, [])


def move_into_cluster(access: EtcdAccess, prefix: str, home: Home) -> tuple[str, int]:
    """Make a cluster of the home's registry; gives its number, and how many sources it has. Raises DMError.

    A home that was a member has a copy of its cluster's registry, which counts then.
    """
    with home.locked(), _connected(access) as etcd:
        mark = HomeMark.read(home.cluster_mark)
        path = home.cluster_copy if mark.cluster else home.registry
        if not path.exists():
            raise DMError("registry-not-there", path=path)
        Registry(path).close()  # which migrates what is older, and refuses what is newer
        with closing(sqlite3.connect(path)) as database:
            rows = list(rows_of(database))
            (sources,) = database.execute("SELECT count(*) FROM source").fetchone()
        number = _made(etcd, prefix, rows)
        HomeMark(mark.home, number).write(home.cluster_mark)
        if not mark.cluster:
            _set_aside(path)
        return number, int(sources)


def move_out_of_cluster(access: EtcdAccess, prefix: str, home: Home) -> int:
    """Make the home a single host's, with the cluster's registry; gives how many sources it has. Raises DMError."""
    with home.locked(), _connected(access) as etcd:
        found = etcd.read(prefix)
        there = found.entries.get(prefix + CLUSTER_KEY)
        if there is None:
            raise DMError("cluster-not-there", prefix=prefix)
        _demand_at_rest(found, prefix)
        if home.registry.exists():
            raise DMError("registry-there", path=home.registry)
        beside = home.registry.with_name(f"{home.registry.name}.new")
        beside.unlink(missing_ok=True)
        Registry(beside).close()
        rows = [(key.removeprefix(prefix), entry.value) for key, entry in found.entries.items()]
        with closing(sqlite3.connect(beside, isolation_level=None)) as database:
            database.execute("BEGIN IMMEDIATE")
            put_rows(database, [(key, value) for key, value in rows if key.startswith(ROWS)])
            (sources,) = database.execute("SELECT count(*) FROM source").fetchone()
            database.execute("COMMIT")
            database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        # The cluster goes first: of a host that dies in between, the copy is there under its other name.
        if etcd.write({prefix + CLUSTER_KEY: there.revision}, [KeyChange(prefix + CLUSTER_KEY, None)]) is None:
            raise DMError("registry-changed")
        os.replace(beside, home.registry)
        _remove(etcd, etcd.read(prefix))
        home.cluster_mark.unlink(missing_ok=True)
        return int(sources)


def _made(etcd: Etcd, prefix: str, rows: Sequence[tuple[str, str]]) -> str:
    found = etcd.read(prefix)
    there = found.entries.get(prefix + CLUSTER_KEY)
    if there is not None:
        raise DMError("cluster-exists", prefix=prefix, number=ClusterRecord.read(there.value).number)
    _remove(etcd, found)
    for part in in_parts(rows):
        etcd.write({}, [KeyChange(prefix + key, value) for key, value in part])
    record = ClusterRecord.new()
    key = prefix + CLUSTER_KEY
    maker = ClusterMember("dmctl", "", "", installed_version())  # the rows are in its formats
    if etcd.write({key: 0}, [KeyChange(key, record.text()), KeyChange(prefix + FORMATS_KEY, maker.text())]) is None:
        raise DMError("registry-changed")
    return record.number


def _remove(etcd: Etcd, found: KeysFound) -> None:
    """All keys that were found, but of members that live."""
    for part in in_parts(key for key, entry in found.entries.items() if not entry.lease):
        etcd.write({}, [KeyChange(key, None) for key in part])


def _demand_at_rest(found: KeysFound, prefix: str) -> None:
    living = sorted(key.removeprefix(prefix + MEMBERS) for key in found.entries if key.startswith(prefix + MEMBERS))
    if living:
        raise DMError("member-online", member=", ".join(living))


def _set_aside(path: Path) -> None:
    for name in (path.name, f"{path.name}-wal", f"{path.name}-shm"):
        file = path.with_name(name)
        if file.exists():
            os.replace(file, path.with_name(name.replace(path.name, f"{path.name}.moved", 1)))


@contextmanager
def _connected(access: EtcdAccess) -> Iterator[Etcd]:
    etcd = Etcd(access, SystemClock())
    try:
        yield etcd
    finally:
        etcd.close()
