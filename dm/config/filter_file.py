"""Rules of `-f @FILE`: a text file with one rule of dumpling's table filter a line.

The grammar is TiDB's (https://docs.pingcap.com/tidb/stable/table-filter#multiple-rules-from-one-file): blanks around a
line do not count, an empty line and one that begins with `#` say nothing, and no line names another file. A path is
relative to the task file, as all paths in it are.

The file is read with the task file, so its rules become part of the task: units see rules only. A daemon that starts
again reads both anew. A file that has changed by then is a task with other lists: the dump goes on for the tables that
are wanted now, and what a load has of others it leaves out.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from dm.config.document import SIZE_LIMIT
from dm.config.table_filter import TableFilter, TableFilterError

_BLANKS: Final = " \t"


def filter_file(rule: str) -> str | None:
    """The path that a rule names; None where it is a rule itself."""
    stripped = rule.strip(_BLANKS)
    return stripped[1:] if stripped.startswith("@") else None


def file_rules(path: Path, name: str) -> list[str]:
    """The rules of a file that a message calls `name`; raises TableFilterError with file and line.

    A message says what is wrong with a line, and shows no line: a task may name a file that is none of rules.
    """
    rules = []
    for number, line in enumerate(_text(path, name).split("\n"), 1):
        rule = line.removesuffix("\r").strip(_BLANKS)
        if not rule or rule.startswith("#"):
            continue
        if rule.startswith("@"):
            raise TableFilterError(f"{name}:{number}: a file of rules names no other file")
        try:
            TableFilter.parse(rule)
        except TableFilterError as error:
            raise TableFilterError(f"{name}:{number}: {error}") from None
        rules.append(rule)
    return rules


def _text(path: Path, name: str) -> str:
    content = b""
    why = ""
    try:
        if path.exists() and not path.is_file():
            why = "it is not a file"
        else:
            with path.open("rb") as file:
                content = file.read(SIZE_LIMIT + 1)
            why = f"it is larger than {SIZE_LIMIT} bytes" if len(content) > SIZE_LIMIT else ""
    except OSError as error:
        why = error.strerror or "it can't be read"
    except ValueError:  # a zero byte in the path
        why = "it is not a path"
    if why:
        raise TableFilterError(f"{name}: {why}")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise TableFilterError(f"{name}:{line}: it is not UTF-8") from None
