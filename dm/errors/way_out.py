"""Workarounds that several errors share."""

from typing import Final

# The progress is removed, so the target must already have everything before the new position.
START_LATER: Final = (
    "`dmctl stop-task`, bring the target up to date by hand, and `dmctl start-task --remove-meta` with a `meta` after"
    " this event"
)

LOAD_AGAIN: Final = (
    "load again (`dmctl stop-task`, empty the target's tables, `dmctl start-task --remove-meta` with `task-mode: all`)"
)

# For statements only: rows are never skipped or replaced.
OTHERWISE: Final = "`dmctl binlog skip` skips the statement, `dmctl binlog replace` executes others instead"

# Rules are read when a task starts; the progress is kept.
WITH_NEW_FILE: Final = "`dmctl stop-task` and `dmctl start-task` with the changed file continue from here"
