"""What is not a task file at all is refused with one clear message, quickly, and without showing what stands in it."""

from __future__ import annotations

import re
import string
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from dm.config import ConfigErrors, load_source, load_task
from dm.config.document import SIZE_LIMIT, Scalar, YamlList, YamlMap, parse
from dm.config.problem import ProblemReport
from tests.unit.config.texts import SOURCE, TASK, source_problems, task_problems

CANARY = "cAnArY7x"


def tree_of(text: str) -> YamlMap:
    report = ProblemReport("f.yaml")
    tree = parse(text, report)
    assert report.problems == []
    assert tree is not None
    return tree


def test_keys_and_values_know_their_places() -> None:
    tree = tree_of("a: 1\nb:\n  - c: x\n    d: y\n")
    assert tree.mark_of("b") == (2, 1)
    items = tree["b"]
    assert isinstance(items, YamlList)
    assert (items[0]["d"].mark, items[0]["d"].path) == ((4, 8), "b[0].d")


def test_values_stay_what_was_written() -> None:
    tree = tree_of("a: 0123\nb: no\nc: 1_000\nd: ~\ne: '~'\nf: 2024-01-01\n")
    texts = {key: value.text for key, value in tree.items()}
    assert texts == {"a": "0123", "b": "no", "c": "1_000", "d": "~", "e": "~", "f": "2024-01-01"}
    assert [key for key, value in tree.items() if value.null] == ["d"]


def test_merged_keys_give_way_to_written_ones() -> None:
    tree = tree_of("base: &b {x: 1, y: 2}\na:\n  <<: *b\n  y: 3\n")
    assert {key: value.text for key, value in tree["a"].items()} == {"x": "1", "y": "3"}


@pytest.mark.parametrize(
    ("content", "code", "words"),
    [
        (b"", 20903, "empty"),
        (b"# nothing\n", 20903, "empty"),
        (b"---\n", 20903, "empty"),
        (b"just words\n", 20911, "single value"),
        (b"- a\n- b\n", 20911, "list"),
        (b"a: b: c\n", 20903, "second"),
        (b"a: [1, 2\n", 20903, "YAML"),
        (b"a: '1\n", 20903, "quote"),
        (b"\ta: 1\n", 20903, "YAML"),
        (b"a: 1\n---\nb: 2\n", 20903, "more than one document"),
        (b"a: *x\n", 20903, "alias"),
        (b"a: !secret x\n", 20903, "tag"),
        (b"? [a]\n: b\n", 20903, "key"),
        (b"a: &x [*x]\n", 20904, "inside of what it names"),
        (b"\x7fELF\x02\x01\x01\x00\x00\x00", 20902, "zero bytes"),
        (b"\x89PNG\r\n\x1a\n", 20902, "UTF-8"),
        (b"a: b\n\xff\xfe\n", 20902, "UTF-8"),
        ("a: b\n".encode("utf-16"), 20902, "UTF-8"),
        (b"a: \x01\n", 20903, "characters"),
        (b"a: b\n" * (SIZE_LIMIT // 5 + 1), 20901, "larger"),
        (b"[" * 100_000, 20904, "levels"),
        (b"a: " + b"{b: " * 50_000, 20904, "levels"),
        (b"<<: 1\na: 2\n", 20903, "merges"),
    ],
)
def test_a_file_of_another_kind_is_one_message(content: bytes, code: int, words: str) -> None:
    for problems in (source_problems(content), task_problems(content)):
        assert [problem.code for problem in problems] == [code]
        assert words in str(problems[0])


def test_aliases_count_each_time_they_are_named() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    assert [problem.code for problem in task_problems("\n".join(lines))] == [20904]


def test_a_byte_order_mark_and_windows_lines_are_fine() -> None:
    assert source_problems(b"\xef\xbb\xbf" + SOURCE.replace("\n", "\r\n").encode()) == ()


def test_a_file_that_can_not_be_read_is_one_message(tmp_path: Path) -> None:
    for path in (tmp_path / "not-there.yaml", tmp_path, Path("a\0b")):
        for load in (load_source, load_task):
            with pytest.raises(ConfigErrors) as raised:
                load(path)
            assert [problem.code for problem in raised.value.problems] == [20018]


def test_messages_name_the_file_as_it_was_given(tmp_path: Path) -> None:
    path = tmp_path / "source.yaml"
    path.write_text(SOURCE + "x: 1\n")
    with pytest.raises(ConfigErrors, match=r"source\.yaml:7:1: x: unknown key"):
        load_source(path)


@pytest.mark.parametrize("text", [SOURCE, TASK])
@given(data=st.data())
def test_any_damage_is_answered_by_problems(text: str, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 12))
    inserted = data.draw(st.text(alphabet=string.printable + "\0é\u2028", max_size=8))
    damaged = text[:at] + inserted + text[at + length :]
    for problem in (*source_problems(damaged), *task_problems(damaged)):
        assert problem.code
        assert 1 <= problem.line <= damaged.count("\n") + 3
        assert "\n" not in str(problem)


@given(st.binary(max_size=60))
def test_any_bytes_are_answered_by_problems(content: bytes) -> None:
    assert source_problems(content)
    assert task_problems(content)


@given(data=st.data())
def test_no_message_shows_a_password(data: st.DataObject) -> None:
    dressing = st.text(alphabet="*&!%@`'\"\\[]{},:#|>-? \tab\n", max_size=4)
    secret = data.draw(dressing) + CANARY + data.draw(dressing)
    separator = data.draw(st.sampled_from([": ", ":", " : ", ":\n", "= "]))
    text = SOURCE.replace("password: secret", f"password{separator}{secret}")
    # On a line of its own, with a colon after it, it is no password but a key, and unknown keys are named.
    assume(not re.search(rf"^[\Wab]*{CANARY}[\Wab]*:|\?[\Wab]*{CANARY}", text, re.MULTILINE))
    problems = source_problems(text)
    assert not any(CANARY in str(problem) for problem in problems)


def test_a_scalar_of_a_file_is_no_mapping() -> None:
    assert isinstance(tree_of("a: 1")["a"], Scalar)
