"""Requests made from the served document by schemathesis: no error of ours, no hang, and each answer as documented.

What a path names is what is there, every other time; else hardly a request would come further than to "there is no such
task". CI has a few requests for each path, `make chaos` many. The seed is printed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from secrets import randbits
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.unit.worker.home import TestHome, home
from tests.unit.worker.test_api import bearer, port

Case = Any  # schemathesis's

SECONDS = 120  # for one answer: a limit for what hangs
THERE = {
    "task": "t", "source": "one", "task_name": "t", "source_name": "one", "schema_name": "s", "table_name": "t",
    "sources": ["one"],
}  # fmt: skip


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("fuzzed") / "home") as running:
        running.start("--listen", "127.0.0.1:0")
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task())
        yield running


def named(case: Case, there: bool) -> Case:
    """The request for what is there."""
    if there:
        for places in (case.path_parameters, case.query, case.body):
            if isinstance(places, dict):
                places |= {name: value for name, value in THERE.items() if name in places}
    return case


def fuzz(one: TestHome, examples: int) -> None:
    import schemathesis  # not at the top: it takes seconds, and most runs of these files want other tests
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi.checks import response_schema_conformance, status_code_conformance

    address, headers = f"http://{port(one, 'listen')}", bearer(one)
    number = randbits(32)
    print(f"seed {number}")
    document = schemathesis.openapi.from_url(f"{address}/openapi.json", headers=headers)
    checks = [not_a_server_error, status_code_conformance, response_schema_conformance]
    asked = dict[str, int]()
    for found in document.get_all_operations():
        operation = found.ok()
        if operation.path.endswith("/shutdown"):
            continue
        cases = st.one_of(
            operation.as_strategy(generation_mode=GenerationMode.POSITIVE),
            operation.as_strategy(generation_mode=GenerationMode.NEGATIVE),
        )

        @seed(number)
        @settings(
            max_examples=examples, database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=[*HealthCheck],
        )  # fmt: skip
        @given(st.builds(named, cases, st.booleans()))
        def answered(case: Case) -> None:
            case.call_and_validate(base_url=address, headers=headers, timeout=SECONDS, checks=checks)
            version = re.match(r"/(api/v\d|\w+)", case.operation.path)
            assert version is not None
            asked[version[1]] = asked.get(version[1], 0) + 1

        answered()
    assert asked["api/v1"] > 40
    assert asked["api/v2"] > 60
    log = (one.directory / "daemon.log").read_text()
    assert "Traceback" not in log
    assert one.ask(_status())["tasks"] is not None


def _status() -> Any:
    from dm.verbs.status import ListTasks

    return ListTasks()


def test_a_few_requests_for_each_path(one: TestHome) -> None:
    fuzz(one, 2)


@pytest.mark.chaos
@pytest.mark.timeout(3600)
def test_many_requests_for_each_path(one: TestHome) -> None:
    fuzz(one, 60)
