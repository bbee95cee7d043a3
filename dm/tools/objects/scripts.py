"""The statements as files for the `mysql` client, in the order of their names.

    mysql --binary-mode --comments < 2-routines.sql

With `--binary-mode` the client leaves bytes alone, and lines that begin like a command of its own. Each statement
stands alone between delimiters that it does not have, after the settings of its session. A script ends at the first
statement that is refused, and what came before is there: give the verb again for the rest.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from dm.errors import DMError
from dm.ident import Ident
from dm.session import state
from dm.text import visible

_DELIMITERS: Final = (b"$$", b"//", b";;", b"@@", b"~~", b"$dm$", b"$dm_end$", b"$dm_end_of_statement$")


class Written(NamedTuple):
    """A statement of a script."""

    title: str
    statement: bytes
    schema: str = ""  # where it is run
    session: Mapping[str, str] = {}


class Script(NamedTuple):
    """A file; `remarks` stand before its statements."""

    file: str
    remarks: Sequence[str]
    statements: Sequence[Written]


def write(directory: Path, scripts: Sequence[Script]) -> list[Path]:
    """Write those that have a statement or remark; raises DMError where a file is there, or can't be written."""
    paths = []
    for script in scripts:
        if script.statements or script.remarks:
            path = directory / script.file
            try:
                directory.mkdir(parents=True, exist_ok=True)
                # Hashes of passwords may be in it.
                with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                    file.write(_content(script))
            except OSError as error:
                why = error.strerror or str(error)
                raise DMError("objects-file-unwritable", file=path, why=why) from error
            paths.append(path)
    return paths


def _content(script: Script) -> bytes:
    pieces = [_remark(text) for text in script.remarks]
    usual = {"sql_mode": state.USUAL_MODE, "time_zone": "+00:00", "collation_connection": state.COLLATION}
    for written in script.statements:
        end = next(each for each in _DELIMITERS if each not in written.statement)
        session = {**usual, **written.session}
        session.setdefault("character_set_client", state.CHARSET)
        pieces += [b"\n", _remark(written.title)]
        pieces += [f"SET NAMES {state.CHARSET} COLLATE {state.COLLATION};\n".encode()]
        pieces += [f"USE {Ident(written.schema).sql};\n".encode()] if written.schema else []
        pieces += [f"{state.assignments({name: value})};\n".encode() for name, value in session.items()]
        pieces += [b"DELIMITER ", end, b"\n", written.statement, b"\n", end, b"\nDELIMITER ;\n"]
    return b"".join(pieces)


def _remark(text: str) -> bytes:
    return f"-- {visible(text)}".replace("\n", "\\n").replace("\r", "\\r").encode("utf-8", "replace") + b"\n"
