"""A source, a target or the daemon is killed in some state of a cut-over: it goes on or is aborted, no row is lost."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pymysql
import pytest

from dm.demo.servers import ThrowawayServer
from dm.mysql.dialect import Flavor
from tests.live.cli.test_cut_over_verb import PASSWORD, Move, grant, moving
from tests.testbed.fixtures import ServerFactory
from tests.testbed.sync import wait_until

pytestmark = [pytest.mark.live]

ORDER = ("comparing", "fencing", "fenced", "drained", "proved", "way-back", "switching", "switched")
ABORTING = ("aborting", "aborted")
OPEN = ("way-back", "switching", "switched")  # a source started again in these may be open: it has lost its mode
PROOF = {"comparing": "recent", "drained-in-full": "full"}  # rows are compared while the server is killed
HOOK = """#!/bin/sh
echo "$1" >> {log}
case $DM_STATE in {held}) sleep 1;; esac
[ $1 = switch ] || exit 3
"""
PAIRS: tuple[tuple[Flavor, Flavor], ...] = (("mysql", "mysql"), ("mariadb", "mariadb"), ("mysql", "mariadb"))
SAMPLES = {("mysql", "mysql", "source", "proved"), ("mariadb", "mariadb", "target", "switching")}
WHEN = (*ORDER, "drained-in-full", "aborting")
CASES = [
    pytest.param(
        *case,
        id="-".join(case),
        marks=[
            *(() if case in SAMPLES else (pytest.mark.chaos,)),
            *((pytest.mark.spark, pytest.mark.timeout(400)) if case[-1] in PROOF else ()),
        ],
    )
    for case in ((*pair, victim, when) for pair in PAIRS for victim in ("source", "target", "daemon") for when in WHEN)
]


@dataclass
class Ledger:
    """An application that writes as long as it can to what it is connected to, and what it knows of that."""

    connect: Callable[[], pymysql.Connection[pymysql.cursors.Cursor]]
    numbers: Iterator[int]
    committed: set[int] = field(default_factory=set)
    doubtful: set[int] = field(default_factory=set)  # no answer has come

    @contextmanager
    def writing(self) -> Iterator[None]:
        stop = threading.Event()
        thread = threading.Thread(target=self._run, args=(stop,))
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()

    def _run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                with closing(self.connect()) as session:
                    while not stop.is_set():
                        self.write(session)
            except pymysql.err.Error:
                stop.wait(0.02)

    def write(self, session: pymysql.Connection[pymysql.cursors.Cursor]) -> None:
        number = next(self.numbers)
        self.doubtful.add(number)
        try:
            session.cursor().execute("INSERT INTO move.t VALUES (%s)", (number,))
        except pymysql.err.OperationalError as error:
            if error.args[0] == 1290:  # read-only
                self.doubtful.discard(number)
            raise
        self.doubtful.discard(number)
        self.committed.add(number)
        time.sleep(0.005)

    def is_at(self, server: ThrowawayServer) -> bool:
        there = {int(number) for (number,) in server.query("SELECT id FROM move.t")}
        return self.committed <= there <= self.committed | self.doubtful | {1, 2}


@pytest.mark.parametrize(("source", "target", "victim", "when"), CASES)
def test_what_is_killed_loses_no_row(
    server: ServerFactory, source: Flavor, target: Flavor, victim: str, when: str, tmp_path: Path
) -> None:
    state = when.removesuffix("-in-full")
    with moving(server(source), server(target), tmp_path) as move:
        grant(move)
        move.source.create_user("app", PASSWORD, "SELECT, INSERT ON move.*")
        move.target.create_user("app", PASSWORD, "SELECT, INSERT ON move.*")  # the switch asks for it
        program, log = tmp_path / "hook", tmp_path / "hook.log"
        program.write_text(HOOK.format(log=log, held="fencing|aborting" if when == "aborting" else state))
        program.chmod(0o700)
        aborting: threading.Thread | None = None
        ledger = Ledger(lambda: move.source.connect(user="app", password=PASSWORD, autocommit=True), count(10))
        with ledger.writing():
            wait_until(lambda: len(ledger.committed) > 20, "it writes")
            move.begin(prove=PROOF.get(when, "none"), hook=str(program), max_lag=1000.0, way_back=state == "way-back")
            if when == "aborting":
                wait_for(move, ("fencing",))
                aborting = threading.Thread(target=lambda: move.daemon.said("cut-over", "move", "--abort"))
                aborting.start()  # it answers in the end
                wait_for(move, ABORTING)
            else:
                wait_for(move, (*ORDER[ORDER.index(state) :], *ABORTING))
            kill(move, victim)
            if aborting is not None:
                aborting.join()
            wait_until(lambda: move.state()["state"] in ("switched", "aborted"), "it ends")
            found = move.state()
            words = log.read_text().split() if log.exists() else []
            if found["state"] == "aborted":
                before = len(ledger.committed)
                wait_until(lambda: len(ledger.committed) > before, "the application writes again")
                assert "switch" not in words
                assert "move-back" not in move.daemon.said("query-status").out
            else:
                assert when != "aborting"
                assert "start-writes" not in words
                # What stays is the row's word: a source that was started again after the switch has lost its mode.
                assert move.read_only() or (victim == "source" and state in OPEN)
        wait_until(lambda: ledger.is_at(move.source), "the source has what was committed")
        if found["state"] == "aborted" or not (victim == "source" and state in OPEN):
            wait_until(lambda: ledger.is_at(move.target), "the target has it, too")


def kill(move: Move, victim: str) -> None:
    if victim == "daemon":
        move.daemon.kill()
        move.daemon.start()
        return
    killed = move.source if victim == "source" else move.target
    killed.kill()
    killed.start()


def wait_for(move: Move, states: tuple[str, ...]) -> None:
    """Until the row is in a state of these: most last for a moment."""
    place = "SELECT JSON_UNQUOTE(JSON_EXTRACT(state, '$.state')) FROM dm_meta.move_cut_over"

    def come() -> bool:
        there = move.target.query("SHOW TABLES FROM dm_meta LIKE 'move_cut_over'")
        rows = move.target.query(place) if there else []
        return bool(rows) and str(rows[0][0]) in states

    until = time.monotonic() + 120
    while not come():
        assert time.monotonic() < until, move.state()
        time.sleep(0.002)
