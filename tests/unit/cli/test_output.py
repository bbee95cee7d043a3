"""What the tables of `query-status` say, and what they leave unsaid because nobody knows it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dm.cli import output
from dm.cli.output import check_table, final_places, sources_table, status_table
from dm.errors import ErrorReport
from dm.tools.cutover.machine import STATES
from dm.worker.status_text import in_error, progress_lines, remarks_of

ERROR = {"ErrCode": 36070, "Message": "the target has no table s.t", "RawCause": "", "Workaround": "create it"}
PAUSED_BY_USER = {"isCanceled": True, "errors": [], "detail": ""}
PAUSED_BY_ERROR = {"isCanceled": False, "errors": [ERROR], "detail": ""}
SYNC = {
    "totalRows": "12",
    "syncerBinlog": "(mysql-bin.000001, 154)",
    "recentRps": "345",
    "secondsBehindMaster": 0.25,
    "synced": True,
}


def _status(
    capsys: pytest.CaptureFixture[str],
    *,
    stage: str = "Running",
    result: dict[str, Any] | None = None,
    relay: dict[str, Any] | None = None,
    **unit: object,
) -> tuple[dict[str, str], list[str]]:
    """The cells of the one row by their columns, and the remarks below."""
    subtask = {"name": "shop", "stage": stage, "unit": "Sync", "result": result, **(unit or {"sync": SYNC})}
    status_table({"sources": [{"sourceStatus": {"source": "one", "relayStatus": relay}, "subTaskStatus": [subtask]}]})
    heads, row, *remarks = capsys.readouterr().out.splitlines()
    names = ["task", "source", "stage", "unit", "progress", "position", "rows/s", "lag", "synced", "relay"]
    starts = [heads.index(name) for name in names]
    cells = [row[start:end].strip() for start, end in zip(starts, [*starts[1:], None], strict=True)]
    return dict(zip(names, cells, strict=True)), remarks


def test_a_running_task_shows_rate_lag_and_whether_it_is_synced(capsys: pytest.CaptureFixture[str]) -> None:
    cells, remarks = _status(capsys)
    assert (cells["rows/s"], cells["lag"], cells["synced"]) == ("345", "0.25 s", "yes")
    assert remarks == []


@pytest.mark.parametrize(
    ("stage", "shown"),
    [("Paused", ("-", "90.5 s", "no")), ("Pausing", ("-", "90.5 s", "no")), ("Finished", ("-", "-", "-"))],
)
def test_of_a_task_that_rests_lag_counts_on_and_nothing_else_is_shown_as_current(
    capsys: pytest.CaptureFixture[str], stage: str, shown: tuple[str, str, str]
) -> None:
    cells, _ = _status(capsys, stage=stage, result=PAUSED_BY_ERROR, sync=SYNC | {"secondsBehindMaster": 90.5})
    assert (cells["rows/s"], cells["lag"], cells["synced"]) == shown
    assert (cells["progress"], cells["position"]) == ("12 rows", "(mysql-bin.000001, 154)"), "these are still so"


def test_a_paused_dump_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    dump = {"progress": "40.00 %", "rowsPerSecond": "9000"}
    assert _status(capsys, dump=dump)[0]["rows/s"] == "9000"
    cells, _ = _status(capsys, stage="Paused", result=PAUSED_BY_USER, dump=dump)
    assert (cells["progress"], cells["rows/s"]) == ("40.00 %", "-")


def test_a_paused_task_says_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    _, remarks = _status(capsys, stage="Paused", result=PAUSED_BY_USER)
    assert remarks == ["shop on one: paused by the user; go on with `dmctl resume-task shop`"]


def test_a_paused_task_waits_for_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    waits = SYNC | {"waiting": "connecting to target db:3306"}
    assert _status(capsys, sync=waits)[1] == ["shop on one: waits: connecting to target db:3306"]
    _, remarks = _status(capsys, stage="Paused", result=PAUSED_BY_ERROR, sync=waits)
    assert not any("waits" in remark for remark in remarks)


@pytest.mark.parametrize("result", [PAUSED_BY_USER, PAUSED_BY_ERROR], ids=["user", "error"])
def test_a_paused_relay_says_how_it_goes_on(capsys: pytest.CaptureFixture[str], result: dict[str, Any]) -> None:
    _, remarks = _status(capsys, relay={"stage": "Paused", "result": result})
    assert remarks[-1].startswith("relay of one: paused by the ")
    assert remarks[-1].endswith("; go on with `dmctl resume-relay -s one`")
    assert not any("resume-task" in remark for remark in remarks)


def test_a_running_relay_that_waits_says_only_what_for(capsys: pytest.CaptureFixture[str]) -> None:
    _, remarks = _status(capsys, relay={"stage": "Running", "result": PAUSED_BY_ERROR})
    assert [remark for remark in remarks if "resume-relay" in remark] == []
    assert "error 36070" in remarks[0]


def test_a_source_on_its_standby_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    place = {"sourceAddress": "db-2:3306", "standbyInUse": True}
    words = "reads the standby db-2:3306; the first address fails"
    assert _status(capsys, sync=SYNC | place)[1] == [f"shop on one: {words}"]
    relay = {"stage": "Running", "result": None, **place}
    assert _status(capsys, relay=relay, sync=SYNC | place)[1] == [f"relay of one: {words}"]


def test_an_xa_transaction_that_nobody_decides_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    entry = {"xid": "X'61',X'',1", "undecidedSeconds": 700, "bytes": 99, "position": "(b.1, 4)", "message": "end it"}
    assert _status(capsys, sync=SYNC | {"undecidedXa": [entry]})[1] == [
        "shop on one: warning: XA transaction X'61',X'',1 is undecided for 700 s, 99 bytes held since (b.1, 4): end it"
    ]


def test_an_entry_of_the_list_that_matches_nothing_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert _status(capsys, sync=SYNC | {"listEntriesWithoutTables": ["do-dbs[1]: shp"]})[1] == [
        "shop on one: nothing at the source matches do-dbs[1]: shp of its block-allow-list yet"
    ]


def test_the_last_comparison_of_whole_tables_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    def record(table: str, verdict: str, began: int, partly: str = "") -> dict[str, Any]:
        return {"table": table, "verdict": verdict, "began": began, "partly": partly}

    records = [record("s.a", "equal", 120), record("s.b", "different", 60), record("s.b", "equal", 1, "where id > 1")]
    assert _status(capsys, sync=SYNC | {"compared": records})[1] == [
        "shop on one: last compared: 1 table equal, different: s.b; since 1970-01-01 00:01:00 UTC or later"
    ]
    assert _status(capsys, sync=SYNC | {"compared": records[2:]})[1] == []


def test_what_sources_did_to_each_others_rows_is_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    order = {"lateTransactions": 2, "withoutSources": ["two"]}
    keys = {"keysOfTwoSources": 1, "lastKeyOfTwoSources": "`shop`.`t`, written by two before"}
    assert _status(capsys, sync=SYNC | {"mergeOrder": order, **keys})[1] == [
        "shop on one: warning: 1 change of keys that another source had written, in no order with that one"
        " (`merge-order`); the last: `shop`.`t`, written by two before",
        "shop on one: warning: 2 transactions came after later ones of other sources (`merge-order`)",
        "shop on one: warning: goes on without two, silent (`merge-order`)",
    ]


def test_a_task_that_catches_up_says_why_it_is_in_safe_mode_and_who_is_busy(capsys: pytest.CaptureFixture[str]) -> None:
    behind = {
        "synced": False,
        "safeMode": ["until (mysql-bin.000001, 900)"],
        "queuedTransactions": "3",
        "queuedRows": "250",
        "queuedBytes": "1572864",
        "timeShares": {"readerWorks": 0.02, "dispatcherWorks": 0.3, "dispatcherRunsDdl": 0.0, "lanesBusy": 0.97},
    }
    assert _status(capsys, sync=SYNC | behind)[1] == [
        "shop on one: safe mode: until (mysql-bin.000001, 900)",
        "shop on one: queued: 3 transactions, 250 rows, 1.5 MB; busy: reader 2 %, dispatcher 30 %, DDL 0 %,"
        " target sessions 97 %",
    ]
    assert _status(capsys, stage="Paused", result=PAUSED_BY_USER, sync=SYNC | behind)[1] == [
        "shop on one: paused by the user; go on with `dmctl resume-task shop`"
    ]


def test_transactions_that_wait_are_told_also_where_no_row_is_with_the_lanes_yet(
    capsys: pytest.CaptureFixture[str],
) -> None:
    waiting = {
        "synced": False,
        "queuedTransactions": "841",
        "queuedRows": "0",
        "timeShares": {"dispatcherRunsDdl": 1.0},
    }
    assert _status(capsys, sync=SYNC | waiting)[1] == [
        "shop on one: queued: 841 transactions, 0 rows, 0.0 MB; busy: reader 0 %, dispatcher 0 %, DDL 100 %,"
        " target sessions 0 %"
    ]


def test_a_running_ddl_is_shown_with_its_age(capsys: pytest.CaptureFixture[str]) -> None:
    running = {"blockingDDLs": ["ALTER TABLE `shop`.`orders`\n  ADD INDEX (a)"], "blockingDDLSeconds": 56}
    line = "shop on one: runs DDL at the target for 56 s: ALTER TABLE `shop`.`orders` ADD INDEX (a)"
    assert line in _status(capsys, sync=SYNC | {"synced": False} | running)[1]
    assert line not in _status(capsys, stage="Paused", result=PAUSED_BY_USER, sync=SYNC | running)[1]


def test_shards_that_wait_say_for_whom_and_since_when(capsys: pytest.CaptureFixture[str]) -> None:
    group = {
        "target": "`shop`.`orders`", "DDLs": ["ALTER TABLE `shop`.`orders` ADD a INT"], "since": "10:00",
        "firstLocation": "(b.000001, 4)", "synced": ["`shop`.`o1`"], "unsynced": ["`shop`.`o2`"],
        "othersUnsynced": ["two `shop`.`o3`"], "executed": False,
    }  # fmt: skip
    waiting = {"synced": False, "unresolvedGroups": [group], "blockingDDLs": group["DDLs"]}
    assert _status(capsys, sync=SYNC | waiting)[1] == [
        "shop on one: shards of `shop`.`orders` wait since 10:00 for `shop`.`o2`, two `shop`.`o3`: ALTER TABLE"
        " `shop`.`orders` ADD a INT; their rows from (b.000001, 4) on come then"
    ]


@pytest.mark.parametrize(
    ("executed", "missing", "who"),
    [
        (False, True, "sources that have not run yet"),
        (False, False, "its second pass"),
        (True, False, "its second pass"),
    ],
)
def test_a_shard_that_waits_for_no_other_waits_for_its_second_pass(
    capsys: pytest.CaptureFixture[str], executed: bool, missing: bool, who: str
) -> None:
    group = {
        "target": "`shop`.`orders`", "DDLs": [], "since": "10:00", "firstLocation": "(b.000001, 4)", "unsynced": [],
        "executed": executed, "sourcesMissing": missing,
    }  # fmt: skip
    waiting = {"synced": False, "unresolvedGroups": [group], "blockingDDLs": []}
    (line,) = _status(capsys, sync=SYNC | waiting)[1]
    assert f" wait since 10:00 for {who}: " in line


def test_a_long_ddl_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    running = {"blockingDDLs": ["CREATE TABLE t (" + "column_name INT, " * 30], "blockingDDLSeconds": 1}
    line = _status(capsys, sync=SYNC | {"synced": False} | running)[1][0]
    assert line.endswith("..")
    assert len(line) < 220


def test_the_end_that_was_asked_for_is_told_while_it_lies_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    subtask = {"name": "shop", "stage": "Running", "unit": "Sync", "result": None, "sync": SYNC, "until": "(b.1, 9)"}
    answer = {"sources": [{"sourceStatus": {"source": "one", "relayStatus": None}, "subTaskStatus": [subtask]}]}
    status_table(answer)
    assert "shop on one: ends at (b.1, 9)" in capsys.readouterr().out
    subtask |= {"stage": "Finished", "result": {"isCanceled": False, "errors": [], "detail": "stopped at the place"}}
    status_table(answer)
    out = capsys.readouterr().out
    assert "ends at" not in out
    assert "shop on one: stopped at the place" in out


def test_a_load_tells_tables_time_and_one_rest_for_dump_and_load() -> None:
    dump = {
        "progress": "25.00 %", "totalTables": "30", "completedTables": 12, "finishedRows": 100,
        "estimateTotalRows": 400, "finishedBytes": 1048576, "bps": "1048576", "etaSeconds": "40",
        "phase": "reading rows", "totalElapsedSeconds": "75", "totalEtaSeconds": "220", "totalEtaAssumed": True,
    }  # fmt: skip

    def line(**part: Any) -> str:
        subtask = {"name": "shop", "stage": "Running", "unit": "Dump", "result": None, **part}
        return progress_lines(
            {"sources": [{"sourceStatus": {"source": "one", "relayStatus": None}, "subTaskStatus": [subtask]}]}
        )[0]

    assert line(dump=dump) == (
        "shop on one: Running Dump 25.00 %, 12 of 30 tables, 100 of about 400 rows, 1.0 MB, 1.0 MB/s, 0:01:15 so far,"
        " about 0:03:40 left with the load, if that takes three times as long as the dump (reading rows)"
    )
    nothing = {"finishedRows": "0", "estimateTotalRows": "0", "totalEtaSeconds": None, "phase": "planning chunks"}
    assert line(dump=dump | nothing) == "shop on one: Running Dump, 0:01:15 so far (planning chunks)"


def test_the_reason_why_a_relay_without_a_task_waits_is_below_the_sources(capsys: pytest.CaptureFixture[str]) -> None:
    relay = {"stage": "Paused", "result": PAUSED_BY_ERROR}
    source = {"source": "one", "from": {"user": "dm", "host": "db", "port": 3306}, "relayStatus": relay, "tasks": []}
    sources_table({"sources": [source]})
    lines = capsys.readouterr().out.splitlines()
    assert "relay of one: error 36070: the target has no table s.t" in lines
    assert lines[-1] == "relay of one: paused by the error; go on with `dmctl resume-relay -s one`"


@pytest.mark.parametrize(
    ("stage", "result", "relay", "error"),
    [
        ("Running", None, None, False),
        ("Paused", PAUSED_BY_USER, None, False),
        ("Paused", PAUSED_BY_ERROR, None, True),
        ("Running", None, {"stage": "Paused", "result": PAUSED_BY_ERROR}, True),
        ("Running", None, {"stage": "Running", "result": PAUSED_BY_ERROR}, False),
    ],
    ids=["runs", "paused by a person", "error", "error of its relay", "the relay waits"],
)
def test_a_task_in_error_is_one_that_rests_on_it(stage: str, result: Any, relay: Any, error: bool) -> None:
    subtask = {"name": "shop", "stage": stage, "unit": "Sync", "result": result}
    source = {"sourceStatus": {"source": "one", "relayStatus": relay}, "subTaskStatus": [subtask]}
    assert in_error({"sources": [source]}) is error


def test_a_stopped_task_says_where_it_is_and_where_the_way_back_begins(capsys: pytest.CaptureFixture[str]) -> None:
    stopped = {
        "source": "one", "stage": "Stopped", "syncerBinlog": "(mysql-bin.000003, 154)", "syncerBinlogGtid": "0-1-9",
        "appliedUpTo": "", "target": "db:4000", "targetBinlog": "(binlog.000002, 99)", "targetBinlogGtid": "",
    }  # fmt: skip
    silent = {"source": "two", "stage": "Stopped", "syncerBinlog": "(b.1, 4)", "syncerBinlogGtid": "",
              "placeProblem": "the connection broke"}  # fmt: skip
    final_places({"taskName": "shop", "sources": [stopped, silent]})
    assert capsys.readouterr().out.splitlines()[3:] == [
        "shop on one: stopped at (mysql-bin.000003, 154), GTID set 0-1-9",
        "shop on two: the target can't be asked where the task is: the connection broke",
        "shop on two: stopped at (b.1, 4), GTID set none",
        "target db:4000: its binlog ends at (binlog.000002, 99), GTID set none",
    ]


class Terminal:
    """A screen of so many columns."""

    def __init__(self, width: int) -> None:
        self.console = Console(highlight=False, width=width)

    def __call__(self) -> Console:
        return self.console


def test_at_80_columns_nothing_of_a_task_is_folded(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_console", Terminal(80))
    sync = SYNC | {"syncerBinlog": "(mysql-bin.000012, 123456789)", "totalRows": "1234567"}
    subtask = {"name": "shop-all", "stage": "Running", "unit": "Sync", "result": None, "sync": sync}
    relay = {"stage": "Running", "result": None}
    status_table(
        {"sources": [{"sourceStatus": {"source": "mysql-01", "relayStatus": relay}, "subTaskStatus": [subtask]}]}
    )
    assert capsys.readouterr().out.splitlines() == [
        "task      source    stage    unit  progress      rows/s  lag     synced  relay  ",
        "shop-all  mysql-01  Running  Sync  1234567 rows  345     0.25 s  yes     Running",
        "shop-all on mysql-01: at (mysql-bin.000012, 123456789)",
    ]


def test_at_80_columns_a_check_is_a_line_and_its_finding_is_folded_below(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(output, "_console", Terminal(80))
    passed = {"state": "success", "name": "binlog_format", "extra": "source mysql-01", "errors": [],
              "desc": "binlog_format is ROW " * 5, "instruction": ""}  # fmt: skip
    warned = {"state": "warn", "name": "not_migrated", "extra": "source mysql-01", "instruction": "",
              "errors": [{"short_error": "the views shop.orders_of_today and shop.customers_of_now are not migrated"}],
              "desc": ""}  # fmt: skip
    summary = {"total": 2, "successful": 1, "warning": 1, "failed": 0}
    check_table({"results": [passed, warned], "summary": summary})
    lines = capsys.readouterr().out.splitlines()
    assert lines[:5] == [
        "success  binlog_format  source mysql-01",
        "    binlog_format is ROW binlog_format is ROW binlog_format is ROW binlog_format",
        "    is ROW binlog_format is ROW",
        "warn     not_migrated   source mysql-01",
        "    the views shop.orders_of_today and shop.customers_of_now are not migrated",
    ]
    assert max(map(len, lines)) <= 80


def test_each_way_out_names_its_finding(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "_console", Terminal(80))

    def finding(name: str, text: str, instruction: str) -> dict[str, Any]:
        errors = [{"short_error": text}]
        return {"state": "fail", "name": name, "extra": "m to db", "errors": errors, "desc": "",
                "instruction": instruction}  # fmt: skip

    results = [
        finding("table_schema", "the target does not have the collations of shop.a", "collation-map"),
        finding("table_schema", "shop.b is not migrated", ""),
        finding("table_schema", "tables of the source have an engine: shop.c", "engine-map"),
        finding("version", "it is old", "a new one"),
    ]
    check_table({"results": results, "summary": {"total": 4, "successful": 0, "warning": 0, "failed": 4}})
    assert [line.strip() for line in capsys.readouterr().out.splitlines()][:-1] == [
        "fail     table_schema  m to db",
        "(1) the target does not have the collations of shop.a",
        "fail     table_schema  m to db  shop.b is not migrated",
        "fail     table_schema  m to db  (2) tables of the source have an engine: shop.c",
        "fail     version       m to db  it is old",
        "to fix table_schema of m to db (1):",
        "collation-map",
        "to fix table_schema of m to db (2):",
        "engine-map",
        "to fix version of m to db:",
        "a new one",
    ]


HOSTILE = "\x1b]0;mine\x07\x9b2J\u202etxt\ud800"
SHOWN = "\\x1b]0;mine\\x07\\x9b2J\\u202etxt\\ud800"


def test_words_of_others_do_nothing_to_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    output.say(HOSTILE)
    output.print_line(HOSTILE)
    output.print_error({**_REPORT, "Message": HOSTILE, "RawCause": HOSTILE, "Workaround": HOSTILE})
    output.table("", ("name",), [(HOSTILE,)])
    output.print_json({"result": False, "msg": HOSTILE})
    check_table(_checked(HOSTILE))
    said = capsys.readouterr()
    assert SHOWN in said.err
    assert SHOWN in said.out
    assert json.loads(said.out[said.out.index("{") : said.out.rindex("}") + 1])["msg"] == HOSTILE
    for text in (said.out, said.err):
        assert not set(HOSTILE) & set(text) - set("]0;mine2Jtxt"), "escaped in every place"


def test_a_text_that_a_file_is_made_of_is_exact_but_on_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "CREATE TABLE t (a ENUM('\x1b'));"
    output.print_file(text)
    assert capsys.readouterr().out == f"{text}\n"
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    output.print_file(text)
    assert capsys.readouterr().out == "CREATE TABLE t (a ENUM('\\x1b'));\n"


def test_nothing_else_of_dmctl_writes_to_the_terminal() -> None:
    folder = Path(output.__file__).parent
    written = re.compile(r"sys\.std(out|err)\.write|\bprint\(|\becho\(|\.print\(|file=sys\.")
    found = {
        f"{path.name}: {line.strip()}"
        for path in folder.glob("*.py")
        if path.name != "output.py"
        for line in path.read_text(encoding="utf-8").splitlines()
        if written.search(line) and "showing.print(" not in line and "def print(" not in line
    }
    assert found == set()


_REPORT: ErrorReport = {
    "ErrCode": 1, "ErrClass": "c", "ErrScope": "s", "ErrLevel": "l", "Message": "", "RawCause": "", "Workaround": "",
}  # fmt: skip


def _checked(text: str) -> dict[str, Any]:
    result = {
        "state": "fail", "name": "n", "extra": text, "desc": "", "errors": [{"short_error": text}],
        "instruction": text,
    }  # fmt: skip
    return {"results": [result], "summary": {"total": 1, "successful": 0, "warning": 0, "failed": 1}}


def _of_validator(capsys: pytest.CaptureFixture[str], **validation: object) -> list[str]:
    known = {"stage": "Stopped", "mode": "full", "detail": "", "result": None, **validation}
    _, remarks = _status(capsys, sync=SYNC, validation=known)
    return remarks


def test_a_stopped_validator_says_why_how_it_goes_on_and_what_it_has_found(
    capsys: pytest.CaptureFixture[str],
) -> None:
    stopped = "shop on one: the validator is stopped; go on with `dmctl validation start shop`"
    wrong = "shop on one: the validator has found 3 rows wrong: `dmctl validation show-error shop`"
    assert _of_validator(capsys, newErrors=3) == [stopped, wrong]
    assert _of_validator(capsys, stage="Running", newErrors=3) == [wrong]
    assert _of_validator(capsys, stage="Running", newErrors=0) == []
    failed = {"isCanceled": False, "errors": [ERROR], "detail": ""}
    assert _of_validator(capsys, result=failed) == [
        "shop on one: validator: error 36070: the target has no table s.t", "  workaround: create it", stopped,
    ]  # fmt: skip
    tried_again = {"isCanceled": False, "errors": [ERROR], "detail": "auto-resume in 2 s"}
    assert _of_validator(capsys, result=tried_again) == [], "it goes on by itself"
    assert _of_validator(capsys, detail="waits until the task syncs") == []


@pytest.mark.parametrize("state", STATES)
def test_a_task_that_its_cut_over_holds_is_not_said_to_be_paused_by_a_person(state: str) -> None:
    """`resume-task` is refused in just these states."""
    subtask = {"name": "shop", "unit": "Sync", "stage": "Paused", "result": PAUSED_BY_USER}
    answer = {
        "sources": [{"sourceStatus": {"source": "one", "relayStatus": None}, "subTaskStatus": [subtask]}],
        "cutOver": {"state": state, "why": "", "problem": ""},
    }
    held = "shop on one: rests for its cut-over: `dmctl cut-over shop --status`"
    assert (held in remarks_of(answer)) is (state in ("proved", "way-back", "switching", "switched"))
