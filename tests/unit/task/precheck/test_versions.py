"""Which servers are too old, or newer than any that was tried."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.flavor import flavor_of
from dm.sql.server_version import tells_generation_expressions, version_number
from dm.task.precheck.not_migrated import seeing_routines
from dm.task.precheck.versions import never_tried, too_old_a_target
from dm.upstream.facts import ServerFacts
from dm.upstream.snapshot import gtids_are_committed
from tests.unit.upstream.test_address import MYSQL


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
    assert tells_generation_expressions(facts.flavor, facts.version) is tells


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
