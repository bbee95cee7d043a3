"""Which runs of a task have committed at the target, in what order: from the target's own binlog.

Each transaction of a stream updates its session's progress row, which has the run's epoch. The binlog has the
transactions in the order of their commits, and the family's own program prints their rows. So a run that commits after
a newer one has begun is seen, whatever came of it later.
"""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from dm.demo.servers import ThrowawayServer

_ROW = re.compile(r"^### (INSERT INTO|UPDATE|DELETE FROM) `([^`]+)`\.`([^`]+)`")
_VALUE = re.compile(r"^###   @(\d+)=(.*)$", re.DOTALL)
_MEMBER = re.compile(r"\bmember\W+([\w.-]+)")  # in JSON, however a program prints its signs


@dataclass
class CommittedRuns:
    """What was committed for each source."""

    commits: dict[str, list[int]] = field(default_factory=dict)  # the epoch of each row of progress, by source
    members: dict[tuple[str, int], set[str]] = field(default_factory=dict)  # that began a run, by source and epoch

    def late(self) -> list[tuple[str, int, int]]:
        """Source, epoch and newer epoch of each commit of a run after one of a newer run."""
        found = []
        for source, epochs in self.commits.items():
            newest = 0
            for epoch in epochs:
                if epoch < newest:
                    found.append((source, epoch, newest))
                newest = max(newest, epoch)
        return found

    def unowned(self) -> list[tuple[str, int]]:
        """Runs with commits that no member, or more than one, has begun; a row is made with 0, before any run."""
        there = {(source, epoch) for source, epochs in self.commits.items() for epoch in epochs if epoch}
        return sorted(run for run in there if len(self.members.get(run, set())) != 1)

    def changes(self, source: str) -> int:
        """How often another member's run has committed than the one before."""
        epochs = [epoch for epoch in self.commits.get(source, []) if epoch]
        owners = [min(self.members.get((source, epoch), {""})) for epoch in epochs]
        return sum(one != other for one, other in itertools.pairwise(owners))


def binlog_names(server: ThrowawayServer) -> list[str]:
    """The files that the server has."""
    return [str(row[0]) for row in server.query("SHOW BINARY LOGS")]


def committed_runs(server: ThrowawayServer, first: str, meta_schema: str, task: str) -> CommittedRuns:
    """Those of a task since a file of the target's binlog, which is ended with this."""
    server.execute("FLUSH BINARY LOGS")
    found = CommittedRuns()
    for name in binlog_names(server)[:-1]:
        if name < first:
            continue
        for table, row in _rows(server, Path(server.data) / name, meta_schema):
            if table == f"{task}_syncer_worker":
                found.commits.setdefault(_text(row[1]), []).append(int(row[3]))
            elif table == f"{task}_owner" and _text(row[2]) == "Sync":
                found.members.setdefault((_text(row[1]), int(row[3])), set()).update(_MEMBER.findall(row[4]))
    return found


def _rows(server: ThrowawayServer, file: Path, schema: str) -> Iterator[tuple[str, dict[int, str]]]:
    """Rows as they are after a change, each with its table."""
    program = server.installation.command("mysqlbinlog" if server.flavor == "mysql" else "mariadb-binlog")
    options = ["--no-defaults", "--base64-output=decode-rows", "--verbose", f"--database={schema}", str(file)]
    with subprocess.Popen(
        [*program, *options], stdout=subprocess.PIPE, text=True, encoding="utf-8", errors="replace"
    ) as printing:
        assert printing.stdout is not None
        table, row, after = "", dict[int, str](), False
        for line in printing.stdout:
            begun = _ROW.match(line)
            if begun is not None or not line.startswith("### "):
                if row:
                    yield table, row
                table, row, after = "", {}, False
                if begun is not None and begun[1] != "DELETE FROM" and begun[2] == schema:
                    table = begun[3]
            elif line.startswith("### SET"):
                after = bool(table)
            elif after and (value := _VALUE.match(line.rstrip("\n"))) is not None:
                row[int(value[1])] = value[2]
        if row:
            yield table, row
    assert printing.returncode == 0


def _text(printed: str) -> str:
    """A name as the program prints it, in quotes."""
    return printed[1 : printed.rindex("'")]
