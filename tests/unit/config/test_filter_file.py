"""`-f @FILE` in `extra-args`: rules from a file beside the task file."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config import ConfigErrors, read_task
from dm.config.dumper import TableFilterError, file_rules, filter_file
from tests.unit.config.texts import TASK


def filters(directory: Path, arguments: str) -> tuple[str, ...]:
    text = TASK + f"    mydumper: {{extra-args: {arguments!r}}}\n"
    dumper = read_task(text, directory=directory).mysql_instances[0].mydumper
    assert dumper is not None
    return dumper.table_filters


def refusal(directory: Path, arguments: str) -> str:
    with pytest.raises(ConfigErrors) as caught:
        filters(directory, arguments)
    (problem,) = caught.value.problems
    assert (problem.code, problem.path) == (20921, "mysql-instances[0].mydumper.extra-args")
    return problem.message


def test_what_names_a_file() -> None:
    assert filter_file(" \t@conf/rules.txt") == "conf/rules.txt"
    assert filter_file("!@x.y") is None


def test_rules_stand_where_their_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text(
        "# what is wanted\n\n  shop.*  \r\n\t!shop./^log_[0-9]+$/\n #!bank.*\n`a#b`.ümlaut", encoding="utf-8"
    )
    assert filters(tmp_path, "-f a.b -f @rules.txt -f '!shop.x'") == (
        "a.b", "shop.*", "!shop./^log_[0-9]+$/", "`a#b`.ümlaut", "!shop.x",
    )  # fmt: skip
    assert filters(tmp_path, f"--filter=@{tmp_path}/rules.txt")[0] == "shop.*"


def test_a_bad_rule_is_told_with_file_and_line_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("# x\nshop.*\nroot:secret:1\n", encoding="ascii")
    assert refusal(tmp_path, "-f @rules.txt") == (
        "`-f @rules.txt` (rules.txt:3: `:` outside of quotes) is not possible here"
    )


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"a.b\n@other.txt\n", "rules.txt:2: a file of rules names no other file"),
        (b"a.b\n\xff.c\n", "rules.txt:2: it is not UTF-8"),
        (b"a.b\n!\n", "rules.txt:2: a part of the name is missing"),
        (b"#" * ((1 << 20) + 1), "rules.txt: it is larger than 1048576 bytes"),
    ],
    ids=["nested", "bytes", "rule", "large"],
)
def test_a_file_that_has_no_rules_to_take(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "rules.txt").write_bytes(content)
    with pytest.raises(TableFilterError) as caught:
        file_rules(tmp_path / "rules.txt", "rules.txt")
    assert str(caught.value) == why


def test_a_file_without_a_rule_would_choose_no_table(tmp_path: Path) -> None:
    (tmp_path / "rules.txt").write_text("# nothing\n", encoding="ascii")
    assert "no line has a rule" in refusal(tmp_path, "-f @rules.txt")


@pytest.mark.parametrize(("name", "why"), [(".", "it is not a file"), ("none", "No such file or directory")])
def test_a_path_that_is_no_file(tmp_path: Path, name: str, why: str) -> None:
    assert refusal(tmp_path, f"-f @{name}") == f"`-f @{name}` ({name}: {why}) is not possible here"


def test_a_path_with_a_zero_byte(tmp_path: Path) -> None:
    with pytest.raises(TableFilterError, match="not a path"):
        file_rules(tmp_path / "a\0b", "x")
