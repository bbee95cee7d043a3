"""Passwords come from the file, the environment or another file, and never come out again."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dm.config import ConfigErrors, SourceConfig, load_source, read_source, referenced_variables
from tests.unit.config.texts import SOURCE, TASK, source, source_problems, task

CANARY = "cAnArY7x"


def test_the_environment_gives_a_password() -> None:
    text = SOURCE.replace("secret", "${DM_PASSWORD}")
    assert source(text, DM_PASSWORD=CANARY).endpoint.password.get_secret_value() == CANARY
    assert referenced_variables(text) == {"DM_PASSWORD"}


def test_a_missing_variable_is_a_problem() -> None:
    (problem,) = source_problems(SOURCE.replace("secret", "${DM_PASSWORD}"))
    assert problem.message == "environment variable DM_PASSWORD is not set"


@pytest.mark.parametrize("password", ["a${X}", "${}", "$X", "${1}", "${X}b"])
def test_only_a_whole_reference_is_one(password: str) -> None:
    assert source(SOURCE.replace("secret", password)).endpoint.password.get_secret_value() == password


def test_a_password_that_looks_like_a_reference_stays_one_on_the_wire() -> None:
    read = source(SOURCE.replace("secret", "${DM_PASSWORD}"), DM_PASSWORD="${OTHER}")
    assert SourceConfig.from_wire(read.to_wire()).endpoint.password.get_secret_value() == "${OTHER}"


@pytest.mark.parametrize("content", [CANARY, f"{CANARY}\n", f"{CANARY}\r\n"])
def test_a_file_beside_the_source_file_gives_a_password(tmp_path: Path, content: str) -> None:
    (tmp_path / "pw").write_bytes(content.encode())
    (tmp_path / "pw").chmod(0o600)
    path = tmp_path / "source.yaml"
    path.write_text(SOURCE.replace("password: secret", "password-file: pw"))
    read = load_source(path)
    assert read.endpoint.password.get_secret_value() == CANARY
    assert read.warnings == ()


def test_a_password_file_that_others_can_read_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "pw").write_text(CANARY)
    (tmp_path / "pw").chmod(0o644)
    path = tmp_path / "source.yaml"
    path.write_text(SOURCE.replace("password: secret", "password-file: pw"))
    assert [warning.path for warning in load_source(path).warnings] == ["from.password-file"]


@pytest.mark.parametrize("content", [b"", b"\n", b"a\nb\n", b"\xff", b"x" * 5000, b"a\0b"])
def test_what_is_no_password_file_is_a_problem_that_does_not_show_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "pw").write_bytes(content)
    with pytest.raises(ConfigErrors) as raised:
        read_source(SOURCE.replace("password: secret", "password-file: pw"), directory=tmp_path)
    assert [problem.code for problem in raised.value.problems] == [20916]


def test_nothing_that_is_printed_holds_a_password() -> None:
    read = source(SOURCE.replace("secret", CANARY))
    migration = task(TASK.replace("secret", CANARY) + f"spark: {{conf: {{spark.x.secret.key: {CANARY}}}}}\n")
    subtask = migration.subtask("mysql-01", {"mysql-01": read})
    dumps = [found.model_dump(mode="json", by_alias=True) for found in (read, migration)]
    for shown in (*dumps, repr(read), str(migration.target_database), str(subtask.source)):
        assert CANARY not in str(shown)
    assert CANARY not in json.dumps(subtask.model_dump(mode="json"))
    assert json.dumps(subtask.to_wire()).count(CANARY) == 3


def test_the_masked_form_has_dms_stars_and_keys() -> None:
    masked = source().model_dump(mode="json", by_alias=True)
    assert masked["source-id"] == "mysql-01"
    assert isinstance(masked["from"], dict)
    assert masked["from"]["password"] == "******"
