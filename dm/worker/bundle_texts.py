"""The texts of a support bundle: status, log lines and files without secrets and without values of rows.

What is known to be a name, a place or a time stays; of every other text the literals go, so that a field that is added
later is safe before anybody thinks of it. Logs are written without values by now (dm/task/log.py), but lines of older
versions and of the libraries below are in the same files, so each line is treated like any other text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import Event

from dm.config.load import masked
from dm.errors.without_values import report_without_values, without_literals, words_without_values

# Texts that are names, places, times or words of ours, by the key that they stand under.
_NAMES: Final = frozenset(
    {
        "name", "taskName", "taskStatus", "task", "source", "sources", "worker", "stage", "unit", "intent", "mode",
        "masterBinlog", "masterBinlogGtid", "syncerBinlog", "syncerBinlogGtid", "relaySubDir", "relayBinlog",
        "relayBinlogGtid", "readBinlog", "validatorBinlog", "validatorBinlogGtid", "checkpoint", "until", "binlogType",
        "sourceAddress", "accelerator", "table", "tables", "schema", "target", "unsynced", "othersUnsynced", "since",
        "state", "file", "directory", "host", "user", "version", "process", "path", "timestamp", "level", "library",
        "listEntriesWithoutTables", "progress", "time", "address", "label", "outcome", "run",
        "place", "home", "who", "verb", "request", "number", "status", "thread", "reasons", "safeMode", "running",
        "lane", "kind", "uuid", "sub-directory", "binlog", "gtid",
    }
)  # fmt: skip
_OPTIONS: Final = frozenset({"targetSession"})  # objects whose texts are variables of a server
_CODED: Final = re.compile(r"\[code=\d+:class=[\w-]+:scope=[\w-]+:level=\w+\]")
_FRAME: Final = re.compile(r'\s+File "[^"]*", line \d+, in \S+|\s*at [\w.$<>/]+\([\w.: ]*\)')


def clean(value: object, key: str = "") -> Any:
    """What JSON holds, without values; errors become their kind."""
    if isinstance(value, Mapping):
        if "ErrCode" in value:
            return report_without_values(value)
        return {str(name): part if key in _OPTIONS else clean(part, str(name)) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [clean(part, key) for part in value]
    if isinstance(value, str):
        return value if key in _NAMES else without_literals(value)
    return value


def clean_line(line: str) -> str:
    """A line of a log."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return line if _FRAME.fullmatch(line) else without_literals(line)
    ours = "library" not in record
    return json.dumps({str(key): _logged(str(key), value, ours=ours) for key, value in record.items()})


def _logged(key: str, value: object, *, ours: bool) -> object:
    if key == "exception" and isinstance(value, str):
        return "\n".join(_traceback_lines(value))
    if key == "error" and isinstance(value, str):
        coded = _CODED.match(value)
        start = 0 if coded is None else coded.end()
        return value[:start] + without_literals(value[start:])
    if key == "event" and isinstance(value, str):
        return value if ours else words_without_values(value)
    return clean(value, key)


def _traceback_lines(text: str) -> Iterator[str]:
    """Places stay. A line of code or of a message is taken for a text like any other."""
    for line in text.splitlines():
        yield line if _FRAME.fullmatch(line) else without_literals(line)


def clean_file(text: str) -> str:
    """A source or task file without secrets, and without comments, since nobody knows what they hold."""
    try:
        events: list[Event] = list(YAML(typ="safe", pure=True).parse(masked(text)))
        written = StringIO()
        YAML(typ="safe", pure=True).emit(events, written)
        return written.getvalue()
    except YAMLError:
        return "# it can't be read as YAML\n"
