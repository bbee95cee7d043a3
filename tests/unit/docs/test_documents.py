"""What the documents name is there: verbs, options, files, make targets, environment variables, anchors."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import typer
from typer.core import TyperGroup

from dm.cli.commands import LISTED, built
from dm.cli.dmctl import app
from tests.unit.docs.document import DECISIONS, DOCUMENTS, OPERATIONS, ROOT, blocks, code, paragraphs, verbs

GROUP: TyperGroup = typer.main.get_group(app)
COMMANDS = {name: built(name) for name in LISTED}
NOT_THERE = ("not there yet", "does not have yet")
PAGES = pytest.mark.parametrize("page", DOCUMENTS, ids=lambda page: str(page.relative_to(ROOT)))


def _text(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def _exists(verb: str) -> bool:
    first, _, second = verb.partition(" ")
    if first == "help":  # tested with dmctl itself; it is answered before a verb is looked up
        return True
    command = COMMANDS.get(first)
    if not second or command is None:
        return command is not None
    return isinstance(command, TyperGroup) and second in command.commands


@PAGES
def test_every_verb_is_one_that_dmctl_has(page: Path) -> None:
    said = [part for part in paragraphs(_text(page)) if not any(words in part for words in NOT_THERE)]
    commands = [command for block in blocks(_text(page)) for command in block.commands]
    named = verbs("\n\n".join(said)) | verbs("```console\n" + "\n".join(f"$ {one}" for one in commands) + "\n```")
    assert sorted(verb for verb in named if not _exists(verb)) == []


@PAGES
def test_what_is_said_to_be_missing_is_missing(page: Path) -> None:
    for part in paragraphs(_text(page)):
        if any(words in part for words in NOT_THERE) and not part.startswith("|"):
            assert sorted(verb for verb in verbs(part) if _exists(verb)) == []


@PAGES
def test_every_command_in_a_block_is_understood(page: Path) -> None:
    for block in blocks(_text(page)):
        for command in block.commands:
            words = shlex.split(command)
            if not words[0].endswith("dmctl") or words[1:2] == ["demo"]:
                continue
            arguments = words[1:]
            context = GROUP.make_context(words[0], list(arguments), resilient_parsing=True)
            arguments = [*context._protected_args, *context.args]  # without the options that stand before the verb
            verb = COMMANDS[arguments[0]]
            if isinstance(verb, TyperGroup):
                arguments = arguments[1:]
                verb = verb.commands[arguments[0]]
            with verb.make_context(words[0], arguments[1:], context):  # raises for unknown options, missing arguments
                pass


@PAGES
def test_every_file_that_is_named_exists(page: Path) -> None:
    text = _text(page)
    linked = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text)
    missing = [target for target in linked if "://" not in target and not (page.parent / target).exists()]
    if page.parent == DECISIONS:  # a decision is dated: what it names may be gone
        text = ""
    roots = ("dm/", "docs/", "tests/", "scripts/", "task-examples/", ".ci/")
    named = {word for piece in code(text) for word in re.findall(r"[\w./-]+", piece) if word.startswith(roots)}
    named |= {word for word in re.findall(r"[\w./-]+\.(?:md|py|sh|yaml|toml)\b", text) if word.startswith(roots)}
    missing += [name for name in sorted(named) if not (ROOT / name).exists()]
    assert missing == []


@PAGES
def test_every_anchor_is_a_heading(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#\s]*)#([^)]*)\)", _text(page)):
        text = _text(page.parent / target if target else page)
        headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
        anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
        assert anchor in anchors, f"{target}#{anchor}"


@PAGES
def test_every_make_target_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", _text(ROOT / "Makefile"), re.MULTILINE))
    named = {name for piece in code(_text(page)) for name in re.findall(r"\bmake ([a-z]+)", piece)}
    assert sorted(named - targets) == []


def test_environment_variables_are_those_that_the_program_reads() -> None:
    tests_only = {"DM_FAULTS", "DM_FAULTS_LOG", "DM_DEMO_TARGET_PASSWORD"}
    between_processes = {"DM_WORKER_MODULES", "DM_WORKER_DAEMON"}
    examples = {"DM_SOURCE_PASSWORD", "DM_TARGET_PASSWORD"}
    read: set[str] = set()
    for path in (*(ROOT / "dm").rglob("*.py"), *(ROOT / "scripts").glob("*.sh")):
        read |= set(re.findall(r"\bDM_[A-Z]+(?:_[A-Z]+)*\b", path.read_text(encoding="utf-8")))
    said = set(re.findall(r"\bDM_[A-Z]+(?:_[A-Z]+)*\b", _text(OPERATIONS)))
    assert said - examples == read - tests_only - between_processes


def test_exit_statuses_are_those_of_dmctl() -> None:
    from dm.cli import invocation
    from dm.cli.verbs.status import TIMED_OUT

    sentence = re.search(r"Exit status of `dmctl`: (.+?)\.", _text(OPERATIONS))
    assert sentence is not None
    statuses = dict(part.split(" ", 1) for part in sentence[1].split(", "))
    assert statuses == {
        str(invocation.OK): "done",
        str(invocation.FAILED): "failed",
        str(invocation.BAD_USAGE): "bad usage or configuration",
        str(invocation.PRECHECK_FAILED): "the precheck failed",
        str(TIMED_OUT): "the time of `wait` is over",
    }
