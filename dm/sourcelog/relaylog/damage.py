"""Damaged relay files: a reader that finds one leaves a note, and the relay fetches the file again.

The note `<file>.damaged` holds the place and the reason (JSON). The reader, which is another process, writes it and
ends with an error that auto-resume retries. The relay checks for notes every second, replaces the damaged file with a
good copy, and removes the note. If the source no longer has the file, the note says so (`lost`), and readers that reach
the damage pause for a person: nothing is ever skipped. A note never decides whether a file is good. The bytes decide.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.sourcelog.relaylog.layout import RelayDirectory, SubDirectory, is_binlog_name

SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with a file, and, if so, why it can't be fetched again."""

    file: str
    offset: int
    what: str
    lost: str = ""
    asked: str = ""  # the server that could not send it


def _note(sub: SubDirectory, file: str) -> Path:
    return sub.file(file).with_name(file + SUFFIX)


def _write(sub: SubDirectory, found: Damage) -> None:
    try:
        write_atomically(_note(sub, found.file), json.dumps(asdict(found)).encode(), durable=True)
    except OSError as error:
        raise DMError("relay-storage-failed", path=sub.path) from error


def _read(sub: SubDirectory, file: str) -> Damage | None:
    try:
        found = json.loads(_note(sub, file).read_bytes())
        return Damage(file, int(found["offset"]), str(found["what"]), str(found["lost"]), str(found["asked"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        return Damage(file, 0, "the note of its damage can't be read")


def report(sub: SubDirectory, file: str, offset: int, what: str) -> None:
    """Report this file as damaged; the relay's earlier answer stays."""
    if lost(sub, file) is None:
        _write(sub, Damage(file, offset, what))


def reported(sub: SubDirectory, server_uuid: str = "") -> list[Damage]:
    """Every damaged file of a sub-directory to fetch again; another server may have what one lacks."""
    return [found for found in _all(sub) if not found.lost or (server_uuid and found.asked != server_uuid)]


def lost(sub: SubDirectory, file: str) -> Damage | None:
    """The relay's answer, if the file can't be fetched again."""
    found = _read(sub, file)
    return found if found is not None and found.lost else None


def give_up(sub: SubDirectory, found: Damage, why: str, server_uuid: str) -> None:
    """Answer that the file can't be fetched again from this server."""
    _write(sub, replace(found, lost=why, asked=server_uuid))


def mended(sub: SubDirectory, file: str) -> None:
    """The file is good again."""
    _note(sub, file).unlink(missing_ok=True)


def try_again(directory: RelayDirectory) -> None:
    """Forget the answers: the relay starts afresh, and the source may have its files back."""
    for sub in directory.sub_directories():
        for found in _all(sub):
            if found.lost:
                _write(sub, replace(found, lost="", asked=""))


def _all(sub: SubDirectory) -> list[Damage]:
    try:
        names = sorted(entry.removesuffix(SUFFIX) for entry in os.listdir(sub.path) if entry.endswith(SUFFIX))
    except FileNotFoundError:
        return []
    return [found for name in names if is_binlog_name(name) and (found := _read(sub, name)) is not None]
