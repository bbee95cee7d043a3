"""Ways out that several errors share, in verbs and keys that there are."""

from typing import Final

# The progress is forgotten, so whatever lies before the new position has to be in the target.
START_LATER: Final = (
    "`dmctl stop-task`, bring the target up to date by hand, and `dmctl start-task --remove-meta` with a `meta` behind"
    " this event"
)

LOAD_AGAIN: Final = (
    "load anew (`dmctl stop-task`, empty the target's tables, `dmctl start-task --remove-meta` with `task-mode: all`)"
)

# Of a statement: nobody can say the like of rows.
OTHERWISE: Final = (
    "`dmctl binlog skip` leaves the statement out and `dmctl binlog replace` executes others in its place"
)

# Rules are read when a task starts; the progress stays where it is.
WITH_NEW_FILE: Final = "`dmctl stop-task` and `dmctl start-task` with the changed file go on from here"
