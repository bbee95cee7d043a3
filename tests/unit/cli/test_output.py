"""What the tables of `query-status` say, and what they leave unsaid because nobody knows it."""

from __future__ import annotations

from typing import Any

import pytest

from dm.cli.output import status_table

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


@pytest.mark.parametrize("stage", ["Paused", "Stopped", "Pausing"])
def test_what_a_unit_said_before_it_stopped_is_not_shown_as_current(
    capsys: pytest.CaptureFixture[str], stage: str
) -> None:
    cells, _ = _status(capsys, stage=stage, result=PAUSED_BY_ERROR)
    assert (cells["rows/s"], cells["lag"], cells["synced"]) == ("-", "-", "-")
    assert (cells["progress"], cells["position"]) == ("12 rows", "(mysql-bin.000001, 154)"), "these are still so"


def test_a_paused_dump_has_no_rate(capsys: pytest.CaptureFixture[str]) -> None:
    dump = {"progress": "40.00 %", "rowsPerSecond": "9000"}
    assert _status(capsys, dump=dump)[0]["rows/s"] == "9000"
    cells, _ = _status(capsys, stage="Paused", result=PAUSED_BY_USER, dump=dump)
    assert (cells["progress"], cells["rows/s"]) == ("40.00 %", "-")


def test_a_paused_task_says_how_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    _, remarks = _status(capsys, stage="Paused", result=PAUSED_BY_USER)
    assert remarks == ["shop on one: paused by the user; go on with `dmctl resume-task shop`"]


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
