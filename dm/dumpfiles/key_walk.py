"""Finds the bounds of a table's chunks at a server (`dm.dumpfiles.chunk_plan` says what they are)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dm.dumpfiles.chunk_plan import Bound, WalkedKey, ends_query, even_bounds, make_bound, step_query
from dm.dumpfiles.text_rows import read_all
from dm.ident import TableName
from dm.upstream.connection import Connection


@dataclass(frozen=True, slots=True)
class KeyWalk:
    """A table whose chunk bounds are wanted."""

    table: TableName
    key: WalkedKey
    rows: int  # of a chunk
    estimate: int = 0  # rows of the table


@dataclass(frozen=True, slots=True)
class WalkResult:
    """The bounds of one table; None when it is gone or changed."""

    table: TableName
    bounds: tuple[Bound, ...] | None
    counted: bool = True  # whether just so many rows are between two bounds; else it is no more than that
    words: str = ""  # of the server that refused it as changed


def find_bounds(connection: Connection, walk: KeyWalk, stopped: Callable[[], bool]) -> WalkResult:
    """Cut a table; when stopped, somewhere."""
    if walk.key.whole_numbers:
        lowest, highest = read_all(connection, ends_query(walk.table, walk.key))[0]
        if lowest is not None and highest is not None:
            bounds = even_bounds(int(lowest), int(highest), walk.rows, walk.estimate)
            if bounds is not None:
                return WalkResult(walk.table, bounds, counted=False)
    bounds = _walked(connection, walk, stopped)
    return WalkResult(walk.table, bounds or (), counted=bounds is not None)


def _walked(connection: Connection, walk: KeyWalk, stopped: Callable[[], bool]) -> tuple[Bound, ...] | None:
    """Step through the key from bound to bound; None where the server does not get beyond one.

    MySQL takes every value of a FLOAT(M,D) to be beyond a literal that is, for it, outside of the type; where
    10^(M-D) - 10^-D is no FLOAT, what is stored there is (seen on 9.7 with FLOAT(10,2), -100000000). Then no condition
    of the key is to be trusted, and the table is one chunk.
    """
    bounds: dict[Bound, None] = {}
    last: Bound | None = None
    while not stopped():
        found = read_all(connection, step_query(walk.table, walk.key, last, walk.rows))
        if not found:
            break
        last = make_bound(walk.key, found[0])
        if last in bounds:
            return None
        bounds[last] = None
    return tuple(bounds)
