"""Declarations of verbs: what is made of them, and that nothing of a verb is missing."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from importlib import import_module
from pkgutil import iter_modules

import pytest
from typer.core import TyperCommand

from dm.cli import verbs as texts
from dm.cli.caller import TEXTS
from dm.cli.commands import LISTED, built
from dm.errors import DMError
from dm.verbs.declaration import ConfigFile, Verb, VerbGroup, first_sentence
from dm.verbs.every import SUBJECTS, VERBS
from dm.verbs.sources import ShowSources, UpdateSources
from dm.verbs.status import ListTasks, QueryStatus
from dm.verbs.tasks import PauseTask
from dm.worker import verbs as work
from tests.unit.cli.test_start_up import SLOW
from tests.unit.worker.home import ROOT

AT_THE_COMMAND_LINE = [verb for verb in VERBS if verb.name]


@pytest.mark.parametrize("name", LISTED)
def test_a_list_says_what_the_verb_says_of_itself(name: str) -> None:
    found = LISTED[name]
    summary = first_sentence(found.help if isinstance(found, VerbGroup) else found.__doc__)
    listed, itself = TyperCommand(name, help=summary, rich_markup_mode=None), built(name)
    assert itself.name == name
    assert itself.get_short_help_str(1000) == summary
    for width in range(20, 200):
        assert listed.get_short_help_str(width) == itself.get_short_help_str(width)


def test_names_and_routes_are_there_once() -> None:
    for what in (
        [verb.name for verb in AT_THE_COMMAND_LINE],
        [(verb.method, verb.path) for verb in VERBS if verb.path],
    ):
        assert [each for each, times in Counter(what).items() if times > 1] == []
    groups = {verb.name.partition(" ")[0] for verb in AT_THE_COMMAND_LINE if " " in verb.name}
    assert groups == {name for name, found in LISTED.items() if isinstance(found, VerbGroup)}


def test_a_subject_has_one_name_in_three_folders() -> None:
    for package in (work, texts):
        assert {each.name for each in iter_modules(package.__path__)} == {*SUBJECTS}


def test_each_verb_of_the_command_line_has_its_text() -> None:
    for verb in AT_THE_COMMAND_LINE:
        import_module(f"dm.cli.verbs.{verb.__module__.rpartition('.')[2]}")
    assert TEXTS.keys() == {*AT_THE_COMMAND_LINE}


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.__name__)
def test_what_a_path_names_is_a_parameter(verb: type[Verb]) -> None:
    parameters = {each.name: each for each in verb.parameters()}
    assert {*verb.in_path()} <= parameters.keys()
    for each in parameters.values():
        if each.word is not None and each.word.flags:
            assert all(flag.startswith("-") for flag in each.word.flags)


def test_declarations_import_nothing_slow_and_nothing_of_the_daemon_or_the_command_line() -> None:
    code = f"import sys, dm.verbs.every; print(*({{*sys.modules}} & {{'typer', 'dm.cli', 'dm.worker', *{SLOW!r}}}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout == "\n"


def test_a_request_has_names_in_its_path_and_the_rest_in_query_or_body() -> None:
    paused = PauseTask(task="a b?", sources=("x", "y"))
    assert paused.request() == ("POST", "/api/v2/tasks/a%20b%3F/pause", {"sources": ["x", "y"]})
    asked = QueryStatus(task="t", source=("x&", "y"), follow=True)
    assert asked.request() == ("GET", "/api/v2/tasks/t/status?source=x%26&source=y", None)
    assert ListTasks().request() == ("GET", "/api/v2/tasks", None)
    file = ConfigFile("f.yaml", "text", "/here", {"A": "b"})
    sent = {"name": "f.yaml", "text": "text", "directory": "/here", "environment": {"A": "b"}}
    assert UpdateSources(files=(file,)).request() == ("PUT", "/api/v2/sources", {"files": [sent]})


@pytest.mark.parametrize("name", ["", ".", "..", "a/b"])
def test_what_is_no_part_of_an_address_is_an_unknown_name(name: str) -> None:
    with pytest.raises(DMError) as raised:
        PauseTask(task=name).request()
    assert raised.value.name == "task-unknown"


def test_calls_are_equal_by_verb_and_values() -> None:
    assert ShowSources(source=("a",)) == ShowSources().but(source=("a",))
    assert ShowSources(source=("a",)) != ListTasks(source=("a",))
    assert "text" not in repr(UpdateSources(files=(ConfigFile("f", "canary", "/"),))), "a text may hold a password"
