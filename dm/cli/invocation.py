"""What the verbs of `dmctl` share: options, and the daemon that is meant."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Final

import typer

from dm.cli import output as printer
from dm.cli.client import ANSWER_SECONDS, Client, RequestRefused, Shown
from dm.cli.output import Format
from dm.errors import DMError
from dm.text import go_duration

# Exit statuses of `dmctl`; `wait` has one more (dm/cli/verbs/status.py), `diff` its own.

OK: Final = 0
FAILED: Final = 1
BAD_USAGE: Final = 2  # or a bad configuration
PRECHECK_FAILED: Final = 3


class EndedWithError(Exception):
    """An error of a verb that has an exit status of its own for errors."""

    def __init__(self, error: RequestRefused | DMError, status: int) -> None:
        super().__init__(str(error))
        self.error = error
        self.status = status


@contextmanager
def errors_end_with(status: int) -> Iterator[None]:
    """Have every error within end `dmctl` with this status."""
    try:
        yield
    except (RequestRefused, DMError) as error:
        raise EndedWithError(error, status) from error


def duration(text: str) -> float:
    """Seconds of a duration in Go's notation, as DM's options have it."""
    seconds = go_duration(text)
    if not seconds or seconds < 0:
        raise typer.BadParameter(f"{text!r} is not a duration such as 30s, 10m or 1h30m")
    return seconds


OutputOption = Annotated[Format | None, typer.Option("--output", "-o", help="table (default) or json, in DM's form")]
AddrOption = Annotated[
    str | None, typer.Option("--addr", help="host:port of a dm-worker; else DM_ADDR; else this user's own daemon")
]
TokenFileOption = Annotated[
    str | None, typer.Option("--token-file", metavar="FILE", help="the token for --addr; else DM_TOKEN_FILE")
]
SslCaOption = Annotated[
    str | None, typer.Option("--ssl-ca", metavar="FILE", help="the CA of the dm-worker at --addr; else DM_SSL_CA")
]
SslCertOption = Annotated[
    str | None, typer.Option("--ssl-cert", metavar="FILE", help="a certificate in place of a token; else DM_SSL_CERT")
]
SslKeyOption = Annotated[str | None, typer.Option("--ssl-key", metavar="FILE", help="its key; else DM_SSL_KEY")]
RpcTimeoutOption = Annotated[
    float | None,
    typer.Option("--rpc-timeout", parser=duration, metavar="DURATION", help="how long to wait for an answer  [10m]"),
]


@dataclass
class Settings:
    """Options that stand before the verb; those after it win."""

    output: Format | None = None
    addr: str | None = None
    seconds: float = ANSWER_SECONDS
    shown: Shown | None = None


settings = Settings()


def client_of(addr: str | None) -> Client:
    """The daemon that is meant."""
    address = addr or settings.addr or os.environ.get("DM_ADDR") or None
    return Client(address, os.environ, printer.say, settings.seconds, settings.shown)


def as_json(chosen: Format | None) -> bool:
    """Whether the answer is to be printed as it comes."""
    return (chosen or settings.output) is Format.json


def is_file(name: str) -> bool:
    """Whether a file was named in place of a task or source."""
    return name.endswith((".yaml", ".yml")) or "/" in name or Path(name).is_file()
