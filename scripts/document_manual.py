"""The manual pages and the completion of shells, made from what the programs themselves declare.

The package's build calls `pages` and puts the files where systems look for them, below share/. As a program it writes
them below a directory.
"""

from __future__ import annotations

import re
import sys
from argparse import Action
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from typer.main import get_command

from dm.cli.commands import LISTED, built
from dm.cli.completion import script
from dm.cli.dmctl import app
from dm.worker.options import parser

SHELLS = {
    "bash": "bash-completion/completions/dmctl",
    "zsh": "zsh/site-functions/_dmctl",
    "fish": "fish/vendor_completions.d/dmctl.fish",
}

_ENVIRONMENT = {
    "DM_HOME": "the directory of this user's dm-worker; else ~/.dm",
    "DM_ADDR": "host:port of a dm-worker, as --addr",
    "DM_TOKEN_FILE": "the file of the token for it, as --token-file",
    "DM_SSL_CA, DM_SSL_CERT, DM_SSL_KEY": "files in PEM, as --ssl-ca, --ssl-cert and --ssl-key",
}
_STATUSES = {
    "0": "done",
    "1": "the daemon or a server refused it, or it failed",
    "2": "a wrong command line, or an error in a file",
    "3": "a check of the task failed",
}
_DMCTL = (
    "dmctl controls dm, which migrates tables from MySQL and MariaDB servers and replicates their changes. It asks a"
    " dm-worker, and starts one for its user where none runs and no address is given. Without a verb it reads verbs"
    " from its input. `wait`, `diff` and `validate` have exit statuses of their own, see their --help."
)
_DM_WORKER = (
    "dm-worker runs the tasks. It listens on a socket in its state directory, and at the ports that its options name."
    " It belongs to one user, and to one state directory."
)
_SEE = "The documents are below share/dm/docs of the environment that dm is installed in."


def pages(version: str) -> Mapping[str, str]:
    """All files, by their paths below share/."""
    return {
        "man/man1/dmctl.1": _page("DMCTL", 1, "dmctl", "control migration tasks", version, _dmctl()),
        "man/man8/dm-worker.8": _page("DM-WORKER", 8, "dm-worker", "run migration tasks", version, _dm_worker()),
        **{path: f"{script(shell)}\n" for shell, path in SHELLS.items()},
    }


def _page(title: str, section: int, name: str, purpose: str, version: str, body: Iterator[str]) -> str:
    head = (f'.TH {title} {section} "" "dm {version}" "dm"', ".SH NAME", rf"{_roff(name)} \- {purpose}")
    return "\n".join((*head, *body, ".SH SEE ALSO", _roff(_SEE), ""))


def _dmctl() -> Iterator[str]:
    yield from (".SH SYNOPSIS", r"\fBdmctl\fR [\fIoptions\fR] [\fIverb\fR] [\fIwords\fR]")
    yield from (".SH DESCRIPTION", _roff(_DMCTL))
    yield ".SH OPTIONS"
    yield from _parameters(get_command(app))
    yield ".SH VERBS"
    for name in LISTED:
        yield from _verb(name, built(name))
    yield from _table("EXIT STATUS", _STATUSES)
    yield from _table("ENVIRONMENT", _ENVIRONMENT)


def _verb(name: str, command: Any) -> Iterator[str]:
    verbs = getattr(command, "commands", None)
    if verbs is not None:
        yield from (f".SS {_roff(name)}", _text(command.help))
        for second, each in verbs.items():
            yield from _verb(f"{name} {second}", each)
        return
    arguments = [_argument(each) for each in command.params if not each.opts[0].startswith("-")]
    yield from (f'.SS "{_roff(" ".join([name, *arguments]))}"', _text(command.help))
    yield from _parameters(command)


def _argument(parameter: Any) -> str:
    word = f"{parameter.name.replace('_', '-')}{'...' if parameter.nargs != 1 or parameter.multiple else ''}"
    return f"<{word}>" if parameter.required else f"[{word}]"


def _parameters(command: Any) -> Iterator[str]:
    for each in command.params:
        flags = ", ".join((*each.opts, *each.secondary_opts)) if each.opts[0].startswith("-") else _argument(each)
        yield from (".TP", rf"\fB{_roff(flags)}\fR", _text(each.help))


def _dm_worker() -> Iterator[str]:
    actions: list[Action] = parser()._actions
    yield from (".SH SYNOPSIS", r"\fBdm\-worker\fR [\fIoptions\fR]", ".SH DESCRIPTION", _roff(_DM_WORKER))
    yield ".SH OPTIONS"
    for each in actions:
        flags = f"{', '.join(each.option_strings)}{f' {each.metavar}' if each.metavar else ''}"
        yield from (".TP", rf"\fB{_roff(flags)}\fR", _text(each.help))


def _table(title: str, entries: Mapping[str, str]) -> Iterator[str]:
    yield f".SH {title}"
    for name, meaning in entries.items():
        yield from (".TP", rf"\fB{_roff(name)}\fR", _roff(meaning))


def _text(text: str | None) -> str:
    """Paragraphs of a help text."""
    paragraphs = re.split(r"\n\s*\n", (text or "").strip())
    return "\n.sp\n".join(_roff(" ".join(paragraph.split())) for paragraph in paragraphs)


def _roff(text: str) -> str:
    r"""Text that roff prints as it is: it begins requests with `.` and `'`, and escapes with `\`."""
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace("'", r"\(aq").replace("`", r"\(ga")
    return rf"\&{escaped}" if escaped.startswith(".") else escaped.replace('"', r"\(dq")


def write(directory: Path, version: str) -> Mapping[str, Path]:
    """Write them below a directory; gives the files by their paths below share/."""
    files: dict[str, Path] = {}
    for name, text in pages(version).items():
        files[name] = directory / name
        files[name].parent.mkdir(parents=True, exist_ok=True)
        files[name].write_text(text, encoding="utf-8")
    return files


if __name__ == "__main__":
    from dm.worker.installed import installed_version

    for written in write(Path(sys.argv[1]), installed_version()).values():
        print(written)
