"""The text of `support-bundle`."""

from __future__ import annotations

import base64
import os
from pathlib import Path

from dm.atomic_file import create_new
from dm.cli import output as printer
from dm.cli.caller import Caller, runs
from dm.errors import DMError
from dm.text import counted
from dm.verbs.support import SupportBundle


@runs(SupportBundle)
def support_bundle(asked: SupportBundle, caller: Caller) -> None:
    """The file is this user's alone, and takes no other's place; the name is tried before anything is collected."""
    if asked.file:
        _demand_free(Path(asked.file))
    answer = caller.ask(asked)
    path = Path(asked.file or answer["file"])
    content = base64.b64decode(answer["content"])
    try:
        with os.fdopen(create_new(path), "wb") as file:
            file.write(content)
    except OSError as error:
        raise _unwritable(path, error) from error
    if caller.json:
        printer.print_json({**answer, "file": str(path), "content": len(content)})
        return
    for problem in answer["problems"]:
        printer.say(f"left out: {problem}")
    printer.print_line(f"{path}: {counted(len(content), 'byte')}; look into it before you send it")


def _demand_free(path: Path) -> None:
    if os.path.lexists(path):
        raise _unwritable(path, FileExistsError(17, "it is there already"))


def _unwritable(path: Path, error: OSError) -> DMError:
    return DMError("bundle-unwritable", file=path, why=error.strerror or str(error))
