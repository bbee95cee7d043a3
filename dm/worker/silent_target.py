"""A start while the target does not answer.

The prechecks find that and refuse. Who leaves them out (`ignore-checking-items: [all]`) starts tasks by a script, and
expects what DM does: the task is there, and goes on by itself once the target answers. Two things are asked of the
target before a task begins, whether a run of it is open elsewhere and where it goes on. Without an answer neither is
guessed:

- The task's hold stays as it was made: it needs all of the relay's files (dm/sourcelog/relaylog/hold.py). So the relay
  purges nothing and passes over no gap until the run has read the task's place and stores its first checkpoint.
- Another daemon's run of the task is ended by this one's, as whenever two daemons run one task; neither loses anything,
  since the rows of progress tell each whether it may commit.

What needs the target now, to forget progress or to set a place, still fails.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dm.config import SubtaskConfig
from dm.errors import DMError


def unanswered(
    ask: Callable[[SubtaskConfig], None], subtasks: Mapping[str, SubtaskConfig], *, needed: bool
) -> dict[str, str]:
    """Ask for each source's subtask; a warning for those whose target does not answer. Raises DMError if `needed`."""
    silent: dict[str, str] = {}
    for source, subtask in subtasks.items():
        try:
            ask(subtask)
        except DMError as error:
            answered = error.kind.error_class != "database" or error.scope != "downstream"  # another daemon's run
            if needed or answered or not error.retryable:
                raise
            silent[source] = (
                f"{error.message}: so nobody knows where source {source} goes on, and its relay keeps all its files"
                " until the target answers; the task tries again by itself"
            )
    return silent
