"""The numbers that DM's documentation gives to errors a user meets are the numbers here."""

from __future__ import annotations

import pytest

from dm.errors import CATALOGUE, DMError

# DM's code and class for the case that the error of this name stands for (errors_release.txt of pingcap/tiflow).
DOCUMENTED = {
    "connection-failed": (10002, "database"),
    "connection-lost": (10003, "database"),
    "query-failed": (10005, "database"),
    "statement-failed": (10006, "database"),
    "partial-row-image": (11126, "binlog-op"),
    "config-unknown-key": (20003, "config"),
    "config-task-name-empty": (20004, "config"),
    "config-source-unknown": (20031, "config"),
    "config-unreferenced": (20038, "config"),
    "config-foreign-keys": (20070, "config"),
    "start-time-too-late": (20057, "config"),
    "precheck-failed": (26005, "task-check"),
    "gtid-mode-off": (26007, "task-check"),
    "source-changed-without-gtid": (30034, "relay-unit"),
    "relay-without-files": (30038, "relay-unit"),
    "dump-lock-refused": (32004, "dump-unit"),
    "dump-missing": (34014, "load-unit"),
    "statement-dml": (36014, "sync-unit"),
    "structure-mismatch": (36027, "sync-unit"),
    "online-ddl-unknown": (36046, "sync-unit"),
    "ddl-not-understood": (36067, "sync-unit"),
    "target-table-missing": (36070, "sync-unit"),
    "task-not-paused": (40051, "dm-worker"),
    "task-not-syncing": (40056, "dm-worker"),
    "route-ambiguous": (40080, "dm-worker"),
    "ddl-untrackable": (44006, "schema-tracker"),
    "source-exists": (46007, "scheduler"),
    "source-unknown": (46008, "scheduler"),
    "source-in-use": (46010, "dm-master"),
    "task-exists": (46014, "scheduler"),
    "task-not-on-source": (46017, "dm-master"),
    "task-unknown": (46018, "scheduler"),
    "daemon-unreachable": (48001, "dmctl"),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_documented_case_has_dms_code_and_class(name: str) -> None:
    assert (CATALOGUE[name].code, CATALOGUE[name].error_class) == DOCUMENTED[name]


def test_an_error_is_printed_in_dms_form() -> None:
    error = DMError("source-unknown", source="mysql-01")
    assert str(error).startswith(
        "[code=46008:class=scheduler:scope=internal:level=medium], Message: there is no source"
    )
