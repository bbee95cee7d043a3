"""Damaged relay files: who finds one leaves a note beside it, and the relay fetches the file again.

`<file>.damaged` holds where and what (JSON). A reader, which is another process, writes it and ends with an error that
auto-resume answers; the relay looks for notes each second, puts a good copy in the damaged file's place, and removes
the note. Where the source has the file no more the note says so (`lost`), and readers that meet the damage pause for a
person: nothing is ever skipped. A note is never asked whether a file is good; the bytes are.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from dm.atomic_file import write_atomically
from dm.errors import DMError
from dm.relaylog.layout import RelayDirectory, SubDirectory, is_binlog_name

SUFFIX = ".damaged"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with one file, and why it can't be fetched again, if it can't."""

    file: str
    offset: int
    what: str
    lost: str = ""
    asked: str = ""  # the server that could not give it


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
    """Tell the relay that this file is damaged; what it has said to this before stays."""
    if lost(sub, file) is None:
        _write(sub, Damage(file, offset, what))


def reported(sub: SubDirectory, server_uuid: str = "") -> list[Damage]:
    """Every damaged file of a sub-directory that is to be fetched again; what one server can't give another may."""
    return [found for found in _all(sub) if not found.lost or (server_uuid and found.asked != server_uuid)]


def lost(sub: SubDirectory, file: str) -> Damage | None:
    """The relay's answer, if it is that the file can't be fetched again."""
    found = _read(sub, file)
    return found if found is not None and found.lost else None


def give_up(sub: SubDirectory, found: Damage, why: str, server_uuid: str) -> None:
    """Answer that the file can't be fetched again from this server."""
    _write(sub, replace(found, lost=why, asked=server_uuid))


def mended(sub: SubDirectory, file: str) -> None:
    """The file is good again."""
    _note(sub, file).unlink(missing_ok=True)


def try_again(directory: RelayDirectory) -> None:
    """Forget the answers: the relay begins anew, and the source may have its files back."""
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
