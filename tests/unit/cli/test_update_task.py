"""What `dmctl update-task` says before it asks, and `query-status` while tables join."""

from __future__ import annotations

from typing import Any

from dm.cli.verbs.updates import lines
from dm.worker.status_text import in_error, remarks_of


def planned(**changes: Any) -> dict[str, Any]:
    return {"taskName": "t", "newSources": [], "tables": {}, "filledTables": [], "keys": [], "changes": True, **changes}


def test_what_changes_is_said() -> None:
    assert lines(planned(changes=False)) == ["t: the file changes nothing"]
    assert lines(planned()) == ["t: the file says the same in other words"]
    many = [f"`s`.`t{number}`" for number in range(22)]
    said = lines(planned(newSources=["two"], tables={"one": many, "three": []}, keys=["`spark`"]))
    assert said[0] == "t: source two is added: it is loaded and followed"
    assert "`s`.`t19` and 2 more" in said[1]
    assert said[2] == "t: tables that the list of source three gets come when the source has them"
    assert said[3] == "t: other settings: `spark`"


def test_rows_that_are_at_the_target_are_said() -> None:
    assert "TRUNCATE" not in "".join(lines(planned(tables={"one": ["`s`.`t`"]})))
    said = lines(planned(tables={"one": ["`s`.`t`"]}, filledTables=["`copy`.`t`"]))
    assert "have rows already" in said[1]
    assert "`copy`.`t`" in said[1]


def test_tables_that_join_are_in_the_status() -> None:
    error = {"ErrCode": 1, "Message": "no", "RawCause": "", "Workaround": ""}
    subtask = {
        "name": "t", "stage": "Running", "unit": "Sync", "result": None,
        "joining": {
            "kind": "reload", "phase": "loading", "tables": ["`s`.`t`"], "unit": "Load", "progress": "40.00 %",
            "stage": "Paused", "result": {"errors": [error], "detail": "", "isCanceled": False},
        },
    }  # fmt: skip
    source = {"sourceStatus": {"source": "one", "relayStatus": None}, "subTaskStatus": [subtask]}
    assert remarks_of({"sources": [source]}) == [
        "t on one: `s`.`t`: joining, loading, Load 40.00 %",
        "t on one: joining: error 1: no",
    ]
    assert in_error({"sources": [source]})
