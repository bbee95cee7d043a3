"""All states that a model of a protocol can reach, each looked at once."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

S = TypeVar("S", bound=Hashable)


class Wrong(Exception):
    """Raised by a step that no correct protocol takes, and of a state that none comes to."""


@dataclass(frozen=True, slots=True)
class Violation(Generic[S]):
    """Why a state is wrong."""

    what: str
    state: S


def explore(
    start: S, steps: Callable[[S], Iterable[S]], judge: Callable[[S, bool], None], limit: int
) -> tuple[int, Violation[S] | None]:
    """Walk all reachable states; gives their number and the first violation.

    `judge` is told of each state whether no step leads on; it raises Wrong.
    """
    seen, todo, known = {start}, [start], 1
    while todo:
        state = todo.pop()
        stuck = True
        try:
            for following in steps(state):
                stuck = False
                seen.add(following)  # a state's hash is most of the work: one of each
                if len(seen) > known:
                    known += 1
                    todo.append(following)
            judge(state, stuck)
        except Wrong as wrong:
            return len(seen), Violation(str(wrong), state)
        if len(seen) > limit:
            raise ValueError(f"more than {limit} states")
    return len(seen), None
