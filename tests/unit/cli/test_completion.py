"""Completion: a real bash asks as a person's would; zsh and fish are answered in their forms."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.worker.home import ROOT, TestHome, home

_BASH = """
dmctl() { %(python)s -m dm.cli.dmctl "$@"; }
export PYTHONPATH=%(root)s
cd %(directory)s
cat > dmctl-command <<'END'
#!/bin/sh
exec %(python)s -m dm.cli.dmctl "$@"
END
chmod +x dmctl-command
source <(dmctl completion bash)
COMP_WORDS=(%(words)s)
COMP_CWORD=%(place)d
_dmctl_completion ./dmctl-command
printf '%%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestHome]:
    with home(tmp_path_factory.mktemp("completion") / "home") as running:
        running.start()
        running.ok("operate-source", "create", running.source())
        running.ok("start-task", running.task("shop"))
        yield running


def completed(directory: Path, *words: str) -> list[str]:
    """What bash offers for the last of these words."""
    script = _BASH % {
        "python": sys.executable, "root": ROOT, "directory": directory,
        "words": " ".join(f"'{word}'" for word in words), "place": len(words) - 1,
    }  # fmt: skip
    environment = {"DM_HOME": str(directory), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=True)
    return done.stdout.split()


def test_bash_completes_verbs_options_and_tasks(one: TestHome) -> None:
    assert completed(one.directory, "dmctl", "query-s") == ["query-status"]
    assert completed(one.directory, "dmctl", "operate-source", "cr") == ["create"]
    assert completed(one.directory, "dmctl", "start-task", "--rem") == ["--remove-meta"]
    assert completed(one.directory, "dmctl", "pause-task", "sh") == ["shop"]
    assert completed(one.directory, "dmctl", "table", "release", "sh") == ["shop"]
    assert completed(one.directory, "dmctl", "transf") == ["transfer-source"]


def test_a_daemon_is_not_started_to_complete(tmp_path: Path) -> None:
    assert completed(tmp_path, "dmctl", "pause-task", "sh") == []
    assert not (tmp_path / "log").exists()


@pytest.mark.parametrize(
    ("shell", "answer"), [("zsh", '"query-status":"Show all tasks'), ("fish", "query-status\tShow all tasks")]
)
def test_zsh_and_fish_are_answered(one: TestHome, shell: str, answer: str) -> None:
    done = one.dmctl(
        _DMCTL_COMPLETE=f"complete_{shell}", _TYPER_COMPLETE_ARGS="dmctl query-s",
        _TYPER_COMPLETE_FISH_ACTION="get-args",
    )  # fmt: skip
    assert done.status == 0
    assert answer in done.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_script_is_one_that_its_shell_can_read(one: TestHome, shell: str) -> None:
    script = one.said("completion", shell).out
    assert "_DMCTL_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)


def test_another_shell_is_bad_usage(one: TestHome) -> None:
    done = one.said("completion", "tcsh")
    assert done.status == 2
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in done.err
