"""`dmctl flashback`: the SQL that takes back the row changes of a stretch of the relay, newest first.

It executes nothing. The stretch is read twice: once to see whether its rows can be taken back (`survey.py`), and once
to write a statement for each change. The statements go to a scratch file in the source's order, which is then read from
its end. So memory does not depend on the stretch.

A file that is there is never written over, since nobody can make it anew once the relay has been purged. A name that is
taken is refused before anything is read; at the end the name is reserved, then the finished file takes its place.

In the opposite order, each statement meets the rows as the source had them after that change: every state in between
is one that the source had, and no unique key collides on the way. Each transaction of the source is one transaction.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from dm.changes.computing import in_files
from dm.changes.plan import PlanOptions
from dm.clock import SystemClock
from dm.config.subtask import SubtaskConfig
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import FilterSession, ServerWeights, SourceSession
from dm.downstream.source_session_settings import applications_settings, filter_zone, local_time
from dm.downstream.target_schema import TargetSchemas
from dm.errors import DMError
from dm.ident import TableName
from dm.position import Position
from dm.progress.checkpoint import Checkpoint, read_checkpoint
from dm.progress.opposite import marks_of
from dm.progress.tables import SubtaskKey, existing_tables
from dm.rules.row_filter import Judges
from dm.rules.table_rules import TableRules
from dm.session.state import CLIENT_HEAD
from dm.sourcelog.stream.source_server import SourceServer, open_source_server
from dm.sourcelog.stream.transaction import RowsItem, SourceTransaction
from dm.sourcelog.stream.until import Until
from dm.tools.errands import FlashbackReport, FlashbackRequest, RelayedSubtask, place_of
from dm.tools.flashback.survey import Stretch, Surveyor
from dm.tools.flashback.tables import BackwardsFile, FlashbackTarget, SourceStructures, UndoneTables
from dm.unit import JSON, UnitName

_STATEMENT, _TRANSACTION = b"S", b"T"


class FlashbackUnit:
    """One run of `dmctl flashback`; `place` tells what a person's place means at a source."""

    name: UnitName = "Flashback"

    def __init__(
        self,
        sources: Sequence[RelayedSubtask],
        request: FlashbackRequest,
        place: Callable[[SubtaskConfig, str], Until],
        scratch: Path,
    ) -> None:
        self._sources = sources
        self._request = request
        self._place = place
        self._scratch = scratch
        self._phase = "looking at the relay"
        self._over = False
        self.reports: list[FlashbackReport] = []

    def status(self) -> Mapping[str, JSON]:
        """How far it is; at the end also what was written."""
        return {
            "phase": self._phase, "over": self._over,
            "transactions": sum(report.transactions for report in self.reports),
            "report": [report.to_json() for report in self.reports] if self._over else [],
        }  # fmt: skip

    def run(self, stop: threading.Event) -> None:
        """Write a file for each source."""
        for each in self._sources:
            if os.path.lexists(file := self._file_of(each.subtask.source_id)):
                raise DMError("flashback-file-there", file=file)
        shutil.rmtree(self._scratch, ignore_errors=True)
        self._scratch.mkdir(parents=True)
        try:
            for each in self._sources:
                report = FlashbackReport(each.subtask.source_id)
                self.reports.append(report)
                self._take_back(each, report, stop)
                if stop.is_set():
                    return
            self._over = True
        finally:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _take_back(self, each: RelayedSubtask, report: FlashbackReport, stop: threading.Event) -> None:
        subtask, request = each.subtask, self._request
        server = open_source_server(subtask, each.relay, SystemClock())
        control = TargetConnection(subtask.target)
        schemas = TargetSchemas(lambda: TargetConnection(subtask.target))
        weights = ServerWeights(lambda: TargetConnection(subtask.target))
        try:
            checkpoint = _checkpoint(control, subtask)
            facts = server.facts
            stretch = Stretch(
                subtask.source_id,
                each.relay,
                facts.flavor,
                self._place(subtask, request.begin),
                self._place(subtask, request.end) if request.end else None,
                checkpoint.position,
                subtask.syncer.reading_quota,
                facts.gtid_ordered,
                marks_of(subtask, facts, lambda: server.addresses.open()[0]),
            )
            rules = TableRules(subtask)
            filters = FilterSession(
                lambda: TargetConnection(subtask.target),
                subtask.meta_schema,
                SourceSession(facts.flavor, facts.sql_mode),
            )
            options = PlanOptions(
                flavor=control.flavor,
                narrower_columns=subtask.syncer.narrower_columns,
                local_time=local_time(control, subtask.timezone),
                computing=in_files(applications_settings(control, server.settings, subtask.application_zone)),
            )
            zone = filter_zone(control) if subtask.expression_filters else ""
            target = FlashbackTarget(schemas.get, options, Judges(weights, filters, zone))
            tables = UndoneTables(rules, _structures(server, checkpoint), target)
            try:
                self._write(stretch, checkpoint, self._wanted(rules), server, tables, report, stop)
            finally:
                filters.close()
        finally:
            for session in (control, schemas, weights):
                with suppress(DMError):
                    session.close()

    def _wanted(self, rules: TableRules) -> Callable[[TableName], bool]:
        named = frozenset(self._request.tables)

        def wanted(table: TableName) -> bool:
            return rules.wanted(table) and (not named or not table.table or str(rules.route(table)) in named)

        return wanted

    def _write(
        self,
        stretch: Stretch,
        checkpoint: Checkpoint,
        wanted: Callable[[TableName], bool],
        server: SourceServer,
        tables: UndoneTables,
        report: FlashbackReport,
        stop: threading.Event,
    ) -> None:
        self._phase = f"looking at what {stretch.source_id} has done"
        start = stretch.start()
        surveyor = Surveyor(wanted, server.context_of)
        survey = surveyor.look(start, stretch.transactions(start, wanted, self._scratch / "first", stop))
        report.begin, report.end = survey.begin, survey.end
        report.ddl, report.ddl_untold = survey.ddl, survey.ddl_untold
        if stop.is_set() or not survey.tables:
            return
        self._refuse_ahead(survey.tables, checkpoint)
        self._phase = f"taking back what {stretch.source_id} has done"
        undone = BackwardsFile(self._scratch / "undone")
        try:
            for transaction, inside in stretch.transactions(start, wanted, self._scratch / "second", stop):
                if not inside or stop.is_set():
                    break
                self._undo(transaction, tables, undone, report, stop)
            if report.transactions and not stop.is_set():
                self._phase = f"writing the statements for {stretch.source_id}"
                report.file = str(self._file(stretch, report, undone.backwards()))
        finally:
            undone.close()

    def _refuse_ahead(self, tables: Iterable[TableName], checkpoint: Checkpoint) -> None:
        """Raise DMError where the target has more of a table than the checkpoint says: after a replay or a join."""
        points = checkpoint.points_ahead()
        for table in tables:
            point = points.get(table)
            if point is not None and not checkpoint.position.at_or_after(point):
                task = self._sources[0].subtask.task
                raise DMError(
                    "flashback-table-ahead", table=table, point=point, checkpoint=checkpoint.position, task=task
                )

    @staticmethod
    def _undo(
        transaction: SourceTransaction,
        tables: UndoneTables,
        undone: BackwardsFile,
        report: FlashbackReport,
        stop: threading.Event,
    ) -> None:
        some = False
        for item in transaction.items:
            if stop.is_set():
                return
            if isinstance(item, RowsItem):
                for table, statement in tables.statements(item, transaction.end):
                    undone.append(_STATEMENT + statement)
                    report.statements[str(table)] += 1
                    some = True
        if some:
            report.transactions += 1
            gtid = "" if transaction.gtid is None else f", GTID {transaction.gtid}"
            undone.append(_TRANSACTION + f"up to {transaction.end}{gtid}".encode())

    def _file_of(self, source: str) -> Path:
        return Path(self._request.directory) / f"flashback.{source}.sql"

    def _file(self, stretch: Stretch, report: FlashbackReport, records: Iterator[bytes]) -> Path:
        path, unfinished = self._file_of(stretch.source_id), None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
                unfinished = Path(file.name)
                file.write(self._head(stretch, report))
                opened = False
                for record in records:
                    if record[:1] == _TRANSACTION:
                        file.write(b"COMMIT;\n" if opened else b"")
                        file.write(b"\n-- " + record[1:] + b"\nSTART TRANSACTION;\n")
                        opened = True
                    else:
                        file.write(record[1:] + b";\n")
                file.write(b"COMMIT;\n")
                file.flush()
                os.fsync(file.fileno())
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            unfinished.replace(path)
        except FileExistsError as error:
            raise DMError("flashback-file-there", file=path) from error
        except OSError as error:
            raise DMError("flashback-unwritable", file=path, cause=error.strerror or str(error)) from error
        finally:
            if unfinished is not None:
                unfinished.unlink(missing_ok=True)
        return path

    def _head(self, stretch: Stretch, report: FlashbackReport) -> bytes:
        begin, end = report.begin, report.end
        assert begin is not None
        assert end is not None
        task, changes = self._sources[0].subtask, report.statements.total()
        lines = [
            f"dmctl flashback of task {task.task}, source {stretch.source_id}. Nothing has executed it: read it first.",
            f"It takes back, newest first, {changes} row changes of {report.transactions} transactions,",
            f"from {place_of(begin)}{_gtids(begin)}",
            f"to {place_of(end)}{_gtids(end)},",
            f"at {task.target.address}, which had everything up to {stretch.checkpoint}.",
            *(f"not taken back: {each.text} at {each.place}" for each in report.ddl),
        ]
        if report.ddl_untold:
            lines.append(f"not taken back: {report.ddl_untold} more statements")
        return "".join(f"-- {line}\n" for line in lines).encode("utf-8", "backslashreplace") + CLIENT_HEAD


def _gtids(position: Position) -> str:
    return f", GTID set {position.gtid_set}" if position.gtid_set and position.file else ""


def _checkpoint(control: TargetConnection, subtask: SubtaskConfig) -> Checkpoint:
    key = SubtaskKey(subtask.meta_schema, subtask.task, subtask.source_id)
    found = read_checkpoint(control, key) if key.checkpoint in existing_tables(control, key) else None
    if found is None:
        raise DMError("flashback-without-checkpoint", task=subtask.task, source=subtask.source_id)
    return found


def _structures(server: SourceServer, checkpoint: Checkpoint) -> SourceStructures:
    known = {name: point.schema for name, point in checkpoint.tables.items() if point.schema is not None}
    return SourceStructures(server.facts.flavor, known, server.facts.logs_cascades)
