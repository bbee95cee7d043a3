"""Whether a transaction of the source came from this very target, through a task in the other direction.

After a cut-over, the way back writes into the old source. If the first task goes on from its checkpoint, it reads these
changes as new ones and applies them to the server from which they came: rows without a key are doubled. There are many
ways to that (a start, a resume after months, a start time, the daemon's own restart), and all of them read the changes
here. So the rule is kept here: if a transaction has rows of the task, and progress of a task that reads the target, the
run ends before any of it is applied. The precheck `way_back` finds the usual case earlier, and may give up after a
while.

Each transaction that a task commits contains its progress row, whose table names the task. The checkpoint table beside
it tells which server that task reads. It is read once per progress table: a task applies nothing before its checkpoint
says where it reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing

from dm.config import Endpoint
from dm.errors import DMError
from dm.gtid import GtidFormatError, GtidSet
from dm.ident import TableName
from dm.position import Position
from dm.progress.tables import SubtaskKey
from dm.session.answers import reads_answers
from dm.sourcelog.upstream.connection import Connection, connect, fetch
from dm.sourcelog.upstream.facts import ServerFacts, executed_gtids, read_facts

CHECKPOINT = SubtaskKey("", "", "").checkpoint.table
"""The end of the name of each task's checkpoint table."""

_OF_NO_TASK = SubtaskKey("", "", "")
# What is written together with rows: by a stream, by a load, by a replay.
_BESIDE_ROWS = tuple(
    table.table for table in (_OF_NO_TASK.worker, _OF_NO_TASK.table("loader_checkpoint"), _OF_NO_TASK.replay)
)
_ABSENT = (1146, 1049)  # no such table, no such schema


class BroughtBack:
    """Judges the transactions of one run."""

    def __init__(self, reads_target: Callable[[TableName], bool]) -> None:
        self._reads_target = reads_target  # a task with this checkpoint table
        self._asked: dict[TableName, bool] = {}

    def is_progress(self, table: TableName) -> bool:
        """Whether the table is a progress table that is written together with rows."""
        return table.table.lower().endswith(_BESIDE_ROWS)

    def demand_none(self, progress: TableName, tables: Iterable[TableName], position: Position) -> None:
        """Raise DMError if a transaction with this progress and rows of these tables came from the target."""
        table = next((each for each in tables if not self.is_progress(each)), None)
        if table is None:
            return
        if progress not in self._asked:
            self._asked[progress] = self._reads_target(TableName(progress.schema, task_of(progress) + CHECKPOINT))
        if self._asked[progress]:
            raise DMError("brought-back", table=table, task=task_of(progress), position=position)


def task_of(progress: TableName) -> str:
    """The task that owns a progress table, also of its share."""
    end = next(end for end in _BESIDE_ROWS if progress.table.lower().endswith(end))
    return SubtaskKey("", progress.table[: -len(end)], "").main.task


def asking(source: Callable[[], Connection], target: Endpoint) -> BroughtBack:
    """A judge that asks the servers; `source` opens a connection."""

    def reads_target(checkpoint: TableName) -> bool:
        with closing(source()) as there, closing(connect(target, role="target")) as connection:
            return reads_server(there, checkpoint, connection, read_facts(connection))

    return BroughtBack(reads_target)


def reads_server(source: Connection, checkpoint: TableName, server: Connection, facts: ServerFacts) -> bool:
    """Whether a source's checkpoint table is of a task that reads this server, or one whose transactions it has."""
    return True in reads_servers(source, checkpoint, server, facts).values()


@reads_answers
def reads_servers(source: Connection, checkpoint: TableName, server: Connection, facts: ServerFacts) -> dict[str, bool]:
    """The same of each source of that task, by its id.

    Raises DMError `privilege-missing` where the source's account may not read it: that it is not listed proves nothing.
    """
    if not facts.dialect.has_binlog:
        return {}
    columns = fetch(
        source,
        "SELECT 1 FROM information_schema.columns WHERE table_schema = %s AND table_name = %s"
        " AND column_name = 'server_uuid'",
        (*checkpoint,),
    )
    if not columns:
        try:
            fetch(source, f"SELECT 1 FROM {checkpoint.sql} LIMIT 0")
        except DMError as error:
            if error.server_errno not in _ABSENT:
                raise
        return {}  # gone, or of DM itself, which does not say which server it reads
    places = fetch(source, f"SELECT id, server_uuid, binlog_gtid FROM {checkpoint.sql} WHERE is_global", None)
    return {str(name): _is_server(server, facts, str(uuid), str(gtids or "")) for name, uuid, gtids in places}


def _is_server(server: Connection, facts: ServerFacts, uuid: str, gtids: str) -> bool:
    if uuid == facts.server_uuid:
        return True
    if facts.dialect.gtids_have_domains or not gtids:
        return False  # its numbers count from 1 on every server
    try:
        read = GtidSet.parse(gtids, "mysql").named
    except GtidFormatError:
        return False
    return bool(read) and executed_gtids(server, facts) >= read
