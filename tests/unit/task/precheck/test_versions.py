"""Which servers are too old, or newer than any that was tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.mysql.dialect import dialect, flavor_of
from dm.mysql.sql.context import version_number
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.privilege import Grants
from dm.sourcelog.upstream.snapshot import gtids_are_committed
from dm.task.precheck.access import global_lock
from dm.task.precheck.context import Answers
from dm.task.precheck.not_migrated import seeing_routines, sees_all_routines
from dm.task.precheck.run import (
    ITEMS,
    OF_A_STANDBY,
    never_tried,
    of_source,
    of_target,
    source_finding,
    target_findings,
    too_old_a_target,
)
from tests.unit.sourcelog.upstream.test_address import MYSQL


def server(text: str) -> ServerFacts:
    return replace(MYSQL, flavor=flavor_of(text), version=version_number(text), version_text=text)


@pytest.mark.parametrize(
    ("text", "untried", "no_target", "tells"),
    [
        ("5.5.62-log", True, True, False),
        ("5.6.51-log", False, True, False),
        ("5.7.7-rc", False, True, True),
        ("5.7.44-log", False, False, True),
        ("9.7.4", False, False, True),
        ("9.8.0", True, False, True),
        ("8.0.11-TiDB-v8.5.0", False, False, True),
        ("10.0.38-MariaDB", True, True, False),
        ("5.5.5-10.1.23-MariaDB", False, True, False),
        ("10.2.6-MariaDB", False, True, True),
        ("10.2.11-MariaDB-log", False, False, True),
        ("11.8.9-MariaDB-4 from Debian", False, False, True),
    ],
)
def test_what_a_version_is_good_for(text: str, untried: bool, no_target: bool, tells: bool) -> None:
    facts = server(text)
    assert never_tried(facts) is untried
    assert too_old_a_target(facts) is no_target
    assert facts.dialect.tells_generation_expressions is tells


@pytest.mark.parametrize(
    ("text", "committed", "privilege"),
    [
        ("5.6.51-log", False, ("SELECT", "`mysql`.`proc`")),
        ("5.7.44-log", True, ("SELECT", "`mysql`.`proc`")),
        ("8.0.19", True, ("SELECT", "*.*")),
        ("8.0.20", True, ("SHOW_ROUTINE", "*.*")),
        ("10.11.19-MariaDB", True, ("SELECT", "`mysql`.`proc`")),
    ],
)
def test_what_older_servers_do_otherwise(text: str, committed: bool, privilege: tuple[str, str]) -> None:
    """When a GTID is told of a transaction, and what shows all routines."""
    assert gtids_are_committed(server(text)) is committed
    assert seeing_routines(server(text)) == privilege
    assert bool(global_lock(server(text), of_one_moment=False)) is not committed
    assert global_lock(server(text), of_one_moment=True)
    assert not gtids_are_committed(replace(server(text), gtid_mode=False))


@pytest.mark.parametrize(
    ("text", "tells"),
    [
        ("5.6.24", False),
        ("8.0.12", False),
        ("8.0.13", True),
        ("8.0.11-TiDB-v8.5.0", True),
        ("5.7.25-TiDB-v7.1.0", True),
        ("11.8.9-MariaDB", False),
    ],
)
def test_which_servers_tell_of_indexes_over_expressions(text: str, tells: bool) -> None:
    assert dialect(flavor_of(text), version_number(text)).tells_index_expressions is tells


@pytest.mark.parametrize(
    ("text", "grant", "sees"),
    [
        ("5.6.51-log", "GRANT SELECT ON `mysql`.`proc`", True),
        ("5.6.51-log", "GRANT SHOW_ROUTINE ON *.*", False),
        ("10.11.19-MariaDB", "GRANT SELECT ON `mysql`.`proc`", True),
        ("8.0.20", "GRANT SELECT ON `mysql`.`proc`", False),
        ("8.0.20", "GRANT SHOW_ROUTINE ON *.*", True),
        ("8.0.20", "GRANT SELECT ON *.*", True),
    ],
)
def test_who_sees_all_routines(text: str, grant: str, sees: bool) -> None:
    facts = server(text)
    assert sees_all_routines(facts, Grants([f"{grant} TO `u`@`%`"], facts.flavor)) is sees


def test_what_is_said_of_a_version() -> None:
    """A source that was never tried is a warning, a target that can't hold the progress tables a failure."""
    answers = Answers("version", "x")
    tried, untried = (source_finding(server(text), answers) for text in ("5.6.51-log", "5.5.62-log"))
    assert (tried.state, tried.message) == ("success", "MySQL 5.6.51-log")
    assert (untried.state, untried.message) == ("warning", "MySQL 5.5.62-log was never tried")
    (too_old,) = target_findings(server("10.2.6-MariaDB"), answers)
    assert too_old.state == "failure"
    assert too_old.instruction == "take a target of MariaDB 10.2.7 or later"
    assert list(target_findings(server("10.2.7-MariaDB"), answers)) == []


def test_a_second_address_is_asked_as_a_source() -> None:
    checks = [item.check for item in OF_A_STANDBY]
    assert of_source in checks
    assert of_target not in checks
    assert [(item.where, item.need) for item in ITEMS if item.check is of_target] == [("target", "always")]
