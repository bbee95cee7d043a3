"""The manual pages that the package's build makes have every verb and option, as roff that prints."""

from __future__ import annotations

import argparse
import re
import subprocess
from pathlib import Path

import pytest

from dm.verbs.every import VERBS
from dm.worker.options import parser
from scripts.document_manual import SHELLS, pages

FOUND = pages("1.2.3")
DMCTL, DM_WORKER = FOUND["man/man1/dmctl.1"], FOUND["man/man8/dm-worker.8"]
REQUESTS = (".TH ", ".SH ", ".SS ", ".TP", ".sp")


def plain(page: str) -> str:
    """The page without roff's escapes."""
    text = page.replace(r"\-", "-").replace(r"\(aq", "'").replace(r"\(ga", "`").replace(r"\(dq", '"')
    return re.sub(r"\\f[BIR]|\\&", "", text)


def test_each_verb_has_a_place_with_its_options() -> None:
    text = plain(DMCTL)
    for verb in VERBS:
        if not verb.name:
            continue
        begin = re.search(rf'^\.SS "{re.escape(verb.name)}[ "]', text, re.MULTILINE)
        assert begin is not None, verb.name
        section = text[begin.start() :].partition("\n.SS ")[0]
        words = [each.word for each in verb.parameters() if each.word is not None]
        flags = {flag for word in words for flags in word.flags for flag in flags.split("/")}
        assert {flag for flag in flags if not re.search(rf"{re.escape(flag)}\b", section)} == set(), verb.name


def test_each_option_of_dm_worker_is_there() -> None:
    actions: list[argparse.Action] = parser()._actions
    assert len(actions) > 10
    for action in actions:
        assert all(flag in plain(DM_WORKER) for flag in action.option_strings)


@pytest.mark.parametrize("page", [DMCTL, DM_WORKER], ids=["dmctl", "dm-worker"])
def test_no_line_of_a_text_is_a_request(page: str) -> None:
    lines = page.splitlines()
    assert [line for line in lines if line.startswith((".", "'")) and not line.startswith(REQUESTS)] == []
    assert lines[0].endswith('"dm 1.2.3" "dm"')


def test_bash_reads_its_completion(tmp_path: Path) -> None:
    file = tmp_path / "dmctl"
    file.write_text(FOUND[SHELLS["bash"]])
    told = subprocess.run(
        ["bash", "-c", f"source {file} && complete -p dmctl"], capture_output=True, text=True, check=True
    )
    assert "dmctl" in told.stdout
