"""When a run may give tables to another stream, or take them."""

from __future__ import annotations

from dm.position import Position
from dm.syncer.state_found import StateFound


def caught_up(state: StateFound, position: Position) -> bool:
    """Whether a run is behind all that any run did or announced, its tables' own points included."""
    done = (state.checkpoint.bound, state.done.keyless, state.done.atomic, state.ordered.reached, state.ordered.done)
    points = (point.point for point in state.checkpoint.tables.values())
    announced = None if state.intent is None else state.intent.position
    return all(other is None or position.covers(other) for other in (*done, *points, announced))
