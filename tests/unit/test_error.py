"""What an error shows of its details."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from string import Formatter

import pymysql

from dm.downstream.failure import failure
from dm.errors import CATALOGUE, DMError
from dm.sourcelog.upstream.connection import server_error
from dm.spark.job import TaskFailure
from tests.unit.docs.document import ROOT

NO_DETAILS = {"position", "cause"}  # an error has these beside what its texts name


def test_a_long_statement_is_shown_by_its_beginning() -> None:
    statement = "ALTER TABLE t ADD c INT COMMENT '" + "x" * 5000 + "'"
    error = DMError("ddl-not-understood", statement=statement, why="it is long")
    assert statement[:400] in error.message
    assert len(error.message) < 700
    assert error.details["statement"] == statement


def test_an_error_keeps_the_servers_number() -> None:
    error = failure(pymysql.err.IntegrityError(1062, "Duplicate entry '1' for key 'PRIMARY'"), "target:4000", b"INSERT")
    assert (error.name, error.server_errno) == ("duplicate-key", 1062)
    again = error.restated(cause=f"{error.cause} [chunk 3]")
    assert (again.name, again.server_errno, again.details) == (error.name, 1062, error.details)
    assert again.cause.endswith("[chunk 3]")
    assert TaskFailure.of(again).error().server_errno == 1062


def test_an_error_of_the_source_has_the_servers_number_too() -> None:
    refused = pymysql.err.ProgrammingError(1146, "Table 'a.b' doesn't exist")
    error = server_error(refused, role="source", host="a", port=1, user="u", statement="SELECT 1")
    assert (error.name, error.server_errno) == ("query-failed", 1146)


def test_what_no_server_said_has_no_number() -> None:
    assert DMError("target-table-unsuitable", table="a.b", table_sql="a.b", reason="it is a view").server_errno == 0


def test_a_cause_that_is_an_error_of_ours_has_no_second_way_out() -> None:
    damaged = DMError("relay-file-corrupt", file="b.000001", offset=4, what="it is empty", cause="short read")
    again = DMError("relay-file-corrupt", file="b.000001", offset=4, what="it is empty")
    lost = DMError("connection-failed", role="source", address="h:1", user="u")
    again.__cause__ = lost.__cause__ = damaged
    assert again.cause == "short read", "the rest is told already"
    assert lost.cause == f"{damaged.message}: short read"
    assert damaged.workaround
    assert str(lost).count("Workaround") == 1


def raised(text: str) -> Iterator[tuple[int, str, set[str]]]:
    """Line, name and details of each error that a module makes, where it spells them."""
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or node.func.id != "DMError":
            continue
        words = {keyword.arg for keyword in node.keywords if keyword.arg is not None}
        match node.args:
            case [ast.Constant(value=str(name))] if len(words) == len(node.keywords):
                yield node.lineno, name, words - NO_DETAILS


def test_every_error_has_the_details_that_its_texts_name() -> None:
    incomplete, errors = [], 0
    for path in sorted((ROOT / "dm").rglob("*.py")):
        for line, name, details in raised(path.read_text(encoding="utf-8")):
            kind = CATALOGUE[name]
            named = {field for text in (kind.message, kind.workaround) for _, field, _, _ in Formatter().parse(text)}
            errors += 1
            if missing := {field for field in named if field and field.partition(".")[0] not in details}:
                incomplete.append(f"{path}:{line}: {name} without {missing}")
    assert not incomplete
    assert errors > 400


# Keys and blocks of a task's file, as a way out names the place of what is to be written.
_IN_THE_FILE = re.compile(
    r"in the task file|(?:in|under) `(?:syncers|loaders|mydumpers|target-database|mysql-instances|spark)`"
)
_STARTS = re.compile(r"start-task|start (?:it|the task)|update-task")


def test_a_way_out_through_the_task_file_says_how_the_task_gets_it() -> None:
    """`resume-task` goes on with the file that the task was started with."""
    found = [
        f"{kind.code} {kind.name}"
        for kind in CATALOGUE.values()
        if "resume" in kind.workaround and _IN_THE_FILE.search(kind.workaround) and not _STARTS.search(kind.workaround)
    ]
    assert found == []
