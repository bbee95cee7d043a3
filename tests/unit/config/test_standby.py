"""The second address of a source: what it takes from the first, and when it can't be."""

from __future__ import annotations

from pathlib import Path

from dm.config import SourceConfig, load_source, read_source
from tests.unit.config.texts import source_problems

FILE = """\
source-id: one
enable-gtid: true
from: {host: db-1, port: 3307, user: dm, password: secret, session: {wait_timeout: "9"}}
"""


def test_what_it_does_not_say_of_the_login_is_as_in_from() -> None:
    first = read_source(FILE).endpoint
    standby = read_source(FILE + "standby: {host: db-2}\n").standby
    assert standby is not None
    assert (standby.host, standby.port) == ("db-2", 3306)
    assert (standby.user, standby.password, standby.session) == (first.user, first.password, first.session)


def test_its_own_login_stays_its_own(tmp_path: Path) -> None:
    (tmp_path / "second").write_text("other\n")
    (tmp_path / "second").chmod(0o600)
    (tmp_path / "source.yaml").write_text(FILE + "standby: {host: db-2, user: two, password-file: second}\n")
    standby = load_source(tmp_path / "source.yaml").standby
    assert standby is not None
    assert (standby.user, standby.password.get_secret_value()) == ("two", "other")


def test_it_needs_gtids_and_another_server() -> None:
    (problem,) = source_problems(FILE.replace("enable-gtid: true", "enable-gtid: false") + "standby: {host: db-2}\n")
    assert (problem.code, problem.path) == (20932, "standby")
    (problem,) = source_problems(FILE + "standby: {host: db-1, port: 3307}\n")
    assert "another server" in str(problem)


def test_its_password_is_sent_and_never_shown() -> None:
    config = read_source(FILE + "standby: {host: db-2, password: second-secret}\n")
    assert SourceConfig.from_wire(config.to_wire()) == config
    assert "second-secret" in str(config.to_wire())
    assert "secret" not in str(config.model_dump(mode="json", by_alias=True)) + repr(config)
