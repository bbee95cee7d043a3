"""`dmctl encrypt`: a password as files may hold it. The daemon does it, since the key is where it is."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from dm.cli import output as printer
from dm.cli.invocation import AddrOption, OutputOption, as_json, client_of
from dm.errors import DMError


def encrypt(
    password: Annotated[
        str | None, typer.Argument(help="the password; read from standard input when left out, which `ps` can't show")
    ] = None,
    output: OutputOption = None,
    addr: AddrOption = None,
) -> None:
    """Encrypt a password of a source or task file. The key is in $DM_HOME/secret-key."""
    text = _asked() if password is None else password
    if not text:
        raise DMError("usage", problem="the password is empty", hint="dmctl encrypt '<password>'")
    answer = client_of(addr).post("/api/v1/encrypt", {"text": text})
    if as_json(output):
        printer.print_json(answer)
    else:
        printer.print_line(answer["cipherText"])


def _asked() -> str:
    if sys.stdin.isatty():
        return str(typer.prompt("password", hide_input=True, err=True))
    return sys.stdin.readline().removesuffix("\n")
