"""Decides where a pull continues: from what the files prove, what the source has, and what the tasks need.

The source may be another server than before: its uuid differs. Or the same server has changed its `log_bin`. Offsets
mean nothing then. The file that holds the first missing transaction is found by GTID and read from its start into a new
sub-directory.

The same server may also have another history, after RESET BINARY LOGS or from a restored backup. Then the creation time
of the file or the GTID set does not match, and the pull ends with an error: continuing would mix two histories in the
files. Without GTIDs another server is another history, too, and so is another `log_bin`. A person may start a task
from nothing: with a load that has not begun, or by `--remove-meta` (`begin_anew`). If no other task has a position in
the old history, its files are set aside, because the new files may have the same names, and the relay starts afresh.

If the source has purged the next file, the gap can't be filled. While a task has its checkpoint before the gap, or may
have it there, the relay pauses: somebody may bring the files back. Otherwise no task needs the old files, and they must
not block new tasks, which say that they begin (`dm.sourcelog.relaylog.hold`). The relay continues after the gap in a
new sub-directory. A reader that reaches the gap stops there (`dm.sourcelog.relaylog.recovery`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import structlog

from dm.errors import DMError
from dm.mysql.dialect.pair import same_family
from dm.position import MAGIC_SIZE, Position
from dm.sourcelog.relaylog.hold import Need, needs
from dm.sourcelog.relaylog.index import FileIndex, write_index
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, base_name, file_number
from dm.sourcelog.relaylog.recovery import Recovered, recover
from dm.sourcelog.upstream.connection import Connection
from dm.sourcelog.upstream.facts import ServerFacts, binlog_end, binlog_files, executed_gtids
from dm.sourcelog.upstream.lineage import still_has

Locate = Callable[[ServerFacts, Position], str]
"""Gives the source's file where a place of another server continues; raises DMError where that can't be told."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The sub-directory to write to, and the place to ask the source for; `index` is of a file to resume."""

    sub: SubDirectory
    file: str
    offset: int
    index: FileIndex | None = None
    stored: Position | None = None  # what the files held before
    bytes_read: int = 0  # of relay files, to decide this


def begin_anew(directory: RelayDirectory) -> bool:
    """Set aside the files of a lost history, if all tasks begin anew; returns whether it did."""
    tasks = needs(directory.root)
    if not tasks or not all(need.begins for need in tasks) or not directory.sub_directories():
        return False  # without a task nobody has declared the old history useless yet
    structlog.get_logger().warning(
        "the source was reset, and no task needs what the relay has of it: the files are set aside",
        directory=str(directory.root),
    )
    try:
        directory.set_aside()
    except OSError as error:
        raise DMError("relay-storage-failed", path=directory.root) from error
    return True


class PullPlanner:
    """Plans one pull."""

    def __init__(
        self,
        directory: RelayDirectory,
        connection: Connection,
        facts: ServerFacts,
        start: Position | None,
        locate: Locate,
    ) -> None:
        self._directory = directory
        self._connection = connection
        self._facts = facts
        self._start = start
        self._locate = locate

    def plan(self) -> Plan:
        """Recover the newest file and decide; raises DMError."""
        sub = self._directory.last()
        recovered = recover(sub, self._facts.flavor) if sub is not None else None
        if recovered is None:
            return self._new_directory(self._first())
        if recovered.sub.server_uuid != self._facts.server_uuid:
            return self._by_gtid(recovered)
        return self._continue(recovered)

    def _first(self) -> str:
        """The first file to pull: what tasks need, else the configured start, else the source's current file."""
        start, facts = self._start, self._facts
        needed = self._needed([name for name, _ in binlog_files(self._connection)])
        if needed:
            return needed
        if start is None:
            return binlog_end(self._connection, facts, exact=False).file
        if not start.file and not start.gtid_set:  # nothing is there yet: everything that the source still has
            return binlog_files(self._connection)[0][0]
        if start.file and start.server_uuid in ("", facts.server_uuid):
            return start.file
        if start.gtid_set and facts.gtid_mode:
            return self._locate(facts, start)
        raise DMError("source-changed-without-gtid", now=facts.server_uuid, before=start.server_uuid or "unknown")

    def _new_directory(self, file: str, recovered: Recovered | None = None) -> Plan:
        facts = self._facts
        last = self._directory.last()
        if last is not None and last.server_uuid == facts.server_uuid and last.path.is_dir() and not last.files():
            sub = last
        else:
            sub = self._directory.add(facts.server_uuid)
        if recovered is None:
            return Plan(sub, file, MAGIC_SIZE)
        return Plan(sub, file, MAGIC_SIZE, None, recovered.position, recovered.bytes_read)

    def _continue(self, recovered: Recovered) -> Plan:
        stored = recovered.position
        self._check_history(stored)
        theirs = binlog_files(self._connection)
        names = [name for name, _ in theirs]
        if stored.file in names:
            at = names.index(stored.file)
            after = names[at + 1] if at + 1 < len(names) else stored.file
            if base_name(after) == base_name(stored.file) or stored.offset < theirs[at][1]:
                return Plan(recovered.sub, stored.file, stored.offset, recovered.index, stored, recovered.bytes_read)
            return self._renamed(recovered, after, follows=True)
        ours = [name for name in names if base_name(name) == base_name(stored.file)]
        if names and not ours:
            return self._renamed(recovered, names[-1])
        if ours and file_number(stored.file) < file_number(ours[0]):
            return self._after_gap(recovered, names)
        # The source has only older files: its refusal of the dump says what happened to ours.
        return Plan(recovered.sub, stored.file, stored.offset, recovered.index, stored, recovered.bytes_read)

    def _check_history(self, stored: Position) -> None:
        if self._facts.gtid_mode and stored.gtid_set:
            lost = stored.gtid_set.named - executed_gtids(self._connection, self._facts)
            if lost:
                raise DMError("source-gtid-diverged", missing=lost, ours=stored.gtid_set, position=stored)

    def _by_gtid(self, recovered: Recovered) -> Plan:
        """Another server: its file that continues where ours ended."""
        stored, facts = recovered.position, self._facts
        if not facts.gtid_mode or not stored.gtid_set or not same_family(stored.flavor, facts.flavor):
            raise DMError("source-changed-without-gtid", now=facts.server_uuid, before=recovered.sub.server_uuid)
        self._demand_named(stored)
        self._check_history(stored)
        return self._new_directory(self._locate(facts, stored), recovered)

    def _demand_named(self, stored: Position) -> None:
        if stored.gtid_set.anonymous:
            why = "what was stored last has no GTIDs, so nothing tells whether the source's other files have it"
            raise DMError("gtids-tell-nothing", now=self._facts.server_uuid, ours=stored.gtid_set, why=why)

    def _renamed(self, recovered: Recovered, now: str, *, follows: bool = False) -> Plan:
        """The same server with another `log_bin`: its numbers start again, so only GTIDs tell what follows.

        Or the server's index of files `follows`: it names `now` after the stored file, whose end is stored.
        """
        if not self._facts.gtid_mode or not recovered.position.gtid_set:
            raise DMError("binlog-renamed-without-gtid", before=recovered.file, now=now, position=recovered.position)
        if follows:
            recovered.index.final, recovered.index.next_file = True, now
            try:
                write_index(recovered.sub.idx(recovered.file), recovered.index)
            except OSError as error:
                raise DMError("relay-storage-failed", path=recovered.sub.path) from error
            return self._new_directory(now, recovered)
        self._demand_named(recovered.position)
        return self._new_directory(self._locate(self._facts, recovered.position), recovered)

    def _after_gap(self, recovered: Recovered, names: list[str]) -> Plan:
        stored = recovered.position
        stuck = [need.task for need in needs(self._directory.root) if not need.begins and not self._has(need)]
        if stuck:
            raise DMError(
                "source-binlog-purged",
                position=stored,
                wanted=f"({stored.file}, {stored.offset})",
                available=f"{names[0]} to {names[-1]}",
                missing=f"from {stored} to {names[0]}, which task {', '.join(stuck)} needs",
                ours=stored.gtid_set,
            )
        file = self._first()
        if file not in names:  # a configured start before the gap: it was stored, and has gone from the source since
            file = names[0]
        structlog.get_logger().warning(
            "the source has purged what follows the relay's files, and no task needs them: going on after the gap",
            stored=str(stored),
            goes_on=file,
        )
        return self._new_directory(file, recovered)

    def _has(self, need: Need) -> bool:
        """Whether the source itself still has everything after the task's checkpoint, if it is known."""
        place = Position(need.server_uuid, need.file, gtid_set=need.gtid_set)
        return not need.everything and still_has(self._connection, self._facts, place)

    def _needed(self, names: list[str]) -> str:
        """The earliest of the source's files that a task needs; empty if none is known."""
        found = [
            need.file
            for need in needs(self._directory.root)
            if need.server_uuid == self._facts.server_uuid and need.file in names
        ]
        return min(found, key=names.index, default="")
