"""Writes docs/dm-files.md: what of DM's task and source files is refused, and why.

Every key of `scripts.dm_keys` is tried with each of its values in a file of its own, and all keys with DM's defaults in
one file. What is refused has to be for a reason that stands here, else the program ends. Run it after a change in
dm/config; a test compares the page with what this would write.
"""

from __future__ import annotations

import base64
import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dm.config import ConfigErrors, Problem, read_source, read_task
from scripts import dm_keys as dm

PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "dm-files.md"
COMMAND: Final = ".venv/bin/python scripts/document_dm_files.py"

CERTIFICATE: Final = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"

# Code and key of a problem -> the reason; nothing else may be refused.
REASONS: Final[Mapping[str, frozenset[tuple[int, str]]]] = {
    "physical import is TiDB's own": frozenset(
        {(20053, "import-mode")}
        | {
            (20907, key)
            for key in (
                "on-duplicate-physical", "disk-quota-physical", "checksum-physical", "analyze", "range-concurrency",
                "compress-kv-pairs", "pd-addr",
            )
        }
    ),
}  # fmt: skip
_TEXT: Final = f"""# DM's files

<!-- Written by `{COMMAND}` from scripts/dm_keys.py and the models in dm/config; do not edit. -->

Each key of DM's task and source files was tried with its default and with the values that DM's documentation gives it:
{{count}} files. All are taken but these:

| reason | key | values | what to do |
|---|---|---|---|
"""


_BY_DM: Final = """\

Of the files in DM's own repository, DM refuses three kinds itself. They are refused here as well:

| file | DM's reason | what to do |
|---|---|---|
"""

_END: Final = """\

`-B`, `-T` and `-f` in `extra-args` are taken in every mode. `-f` is dumpling's whole table filter, with rules from a
file (`-f @rules.txt`, relative to the task file). In a task that loads and follows, `check-task` compares them with the
lists, table by table of the source: DM would leave out rows there without a word (see
[coming from DM](coming-from-dm.md)).
"""


@dataclass(frozen=True, slots=True)
class Trial:
    """One file that DM takes: what it tries, and its content."""

    key: str
    value: Any
    task: bool
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Refusal:
    """A file that was refused, with the problem."""

    trial: Trial
    problem: Problem

    @property
    def kind(self) -> tuple[int, str]:
        """Code and key."""
        return self.problem.code, self.problem.path.rpartition(".")[2]

    @property
    def reason(self) -> str | None:
        """The listed reason; None where it is none."""
        return next((reason for reason, kinds in REASONS.items() if self.kind in kinds), None)


@dataclass(frozen=True, slots=True)
class RefusedByDM:
    """A file of DM's repository that DM itself refuses: which one, why, and what is written instead."""

    trial: Trial
    kinds: frozenset[tuple[int, str]]  # codes and keys of the problems that it has here
    shown: str
    reason: str
    instead: str


def source_file(**changes: Any) -> dict[str, Any]:
    """A small source file."""
    return {"source-id": "mysql-replica-01", "from": {"host": "127.0.0.1", "port": 3306}, **changes}


def task_file(instance: Mapping[str, Any] | None = None, **changes: Any) -> dict[str, Any]:
    """A small task file."""
    return {
        "name": "test",
        "task-mode": "all",
        "target-database": {"host": "127.0.0.1", "port": 4000},
        "mysql-instances": [{"source-id": "mysql-replica-01", **(instance or {})}],
        **changes,
    }


def trials() -> Iterator[Trial]:
    """Every key with every value."""
    for key, value in _pairs(dm.SOURCE):
        yield Trial(key, value, False, source_file(**{key: value}))
    for name, section in (("purge", dm.PURGE), ("checker", dm.CHECKER)):
        for key, value in _pairs(section):
            yield Trial(key, value, False, source_file(**{name: {key: value}}))
    for key, value in _pairs(dm.ENDPOINT):
        login = {"host": "127.0.0.1", key: value}
        yield Trial(key, value, False, source_file(**{"from": login}))
        yield Trial(key, value, True, task_file(**{"target-database": login}))
    for key, value in _pairs(dm.SECURITY):
        yield Trial(key, value, False, source_file(**{"from": {"host": "127.0.0.1", "security": {key: value}}}))
    for key, value in _pairs(dm.FILTER):
        rule = {name: values[0] for name, values in dm.FILTER.items()} | {key: value}
        if rule["events"] or rule["sql-pattern"]:
            yield Trial(key, value, False, source_file(filters=[rule]))
            yield Trial(key, value, True, task_file({"filter-rules": ["rule"]}, filters={"rule": rule}))
    for key, value in _pairs(dm.TASK):
        yield Trial(key, value, True, task_file(**{key: value}))
    for key, value in _pairs(dm.INSTANCE):
        yield Trial(key, value, True, task_file({key: value}))
    yield from _named_sections()


def refused_by_dm() -> Iterator[RefusedByDM]:
    """What DM's repository holds and DM refuses."""
    tables = "-B test -T t1,t2"
    dump = task_file({"mydumper-config-name": "global"}, mydumpers={"global": {"extra-args": tables}})
    yield RefusedByDM(
        Trial("extra-args", tables, True, dump),
        frozenset({(20921, "extra-args")}),
        f"`extra-args: {tables}`",
        "`--tables-list only accepts qualified table names`, when the dump begins",
        "write tables with their schemas: `shop.orders`",
    )
    nowhere = {"binlog-gtid": ""}
    yield RefusedByDM(
        Trial("meta", nowhere, True, {**task_file({"meta": nowhere}), "task-mode": "incremental"}),
        frozenset({(20011, "meta")}),
        '`meta: {binlog-gtid: ""}` with `task-mode: incremental`',
        "20011: neither `binlog-name` nor `binlog-gtid`",
        "leave `meta` out to begin at the end of the binlog, or say where",
    )
    instance = {"config": {"host": "192.168.0.2", "port": 3306}, "server-id": 101, "route-rules": ["user-route-rules"]}
    target = {"host": "192.168.0.1", "port": 4000}
    of_2018 = {"name": "test", "task-mode": "all", "flavor": "mysql", "target-database": target}
    yield RefusedByDM(
        Trial("MySQL-instances", instance, True, {**of_2018, "MySQL-instances": [instance]}),
        frozenset({(20003, "flavor"), (20003, "MySQL-instances")}),
        "the format of 2018: `flavor`, `MySQL-instances` with `config` and `server-id`",
        "unknown keys, which DM refuses in every file",
        "put host, port and user in a source file, and name it: `mysql-instances: [{source-id: ...}]`",
    )


def _named_sections() -> Iterator[Trial]:
    for section, reference, keys in (
        ("mydumpers", "mydumper-config-name", dm.MYDUMPER),
        ("loaders", "loader-config-name", dm.LOADER),
        ("syncers", "syncer-config-name", dm.SYNCER),
        ("validators", "validator-config-name", dm.VALIDATOR),
        ("block-allow-list", "block-allow-list", dm.LIST),
    ):
        for key, value in _pairs(keys):
            yield Trial(key, value, True, task_file({reference: "global"}, **{section: {"global": {key: value}}}))
    for section, reference, keys in (
        ("routes", "route-rules", dm.ROUTE),
        ("expression-filter", "expression-filters", dm.EXPRESSION_FILTER),
    ):
        for key, value in _pairs(keys):
            rule = {name: values[0] for name, values in keys.items()} | {key: value}
            if section == "routes" or rule["insert-value-expr"]:
                yield Trial(key, value, True, task_file({reference: ["rule"]}, **{section: {"rule": rule}}))


def _pairs(keys: Mapping[str, dm.Values]) -> Iterator[tuple[str, Any]]:
    for key, values in keys.items():
        for value in values:
            yield key, value


def refusals(found: Iterator[Trial]) -> Iterator[Refusal]:
    """What is refused of these files."""
    with tempfile.TemporaryDirectory() as directory:
        certificate = Path(directory) / "ca.pem"
        certificate.write_text(CERTIFICATE, encoding="ascii")
        for trial in found:
            content = _filled(json.dumps(trial.content), certificate)
            try:
                if trial.task:
                    read_task(content, {"mysql-replica-01": read_source(json.dumps(source_file()))}, environ={})
                else:
                    read_source(content, environ={})
            except ConfigErrors as errors:
                yield from (Refusal(trial, problem) for problem in errors.problems)


def _filled(text: str, certificate: Path) -> str:
    encoded = base64.b64encode(CERTIFICATE.encode()).decode()
    numbers = json.dumps(list(CERTIFICATE.encode()))
    return (
        text.replace('"{certificate}"', json.dumps(str(certificate)))
        .replace('"{bytes}"', numbers)
        .replace("{base64}", encoded)
    )


def page() -> str:
    """The whole page."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for refusal in refusals(trials()):
        if refusal.reason is None:
            raise SystemExit(
                f"{refusal.trial.key}: {refusal.trial.value!r} is refused without a reason: {refusal.problem}"
            )
        advice = refusal.problem.suggestion or refusal.problem.expected
        values = rows.setdefault((refusal.reason, refusal.trial.key, advice), [])
        if (value := f"`{_yaml(refusal.trial.value)}`") not in values:
            values.append(value)
    lines = [
        f"| {reason} | `{key}` | {', '.join(values)} | {advice} |" for (reason, key, advice), values in rows.items()
    ]
    by_dm = [_line_of(one) for one in refused_by_dm()]
    count = sum(1 for _ in trials()) + len(by_dm)
    return _TEXT.format(count=count) + "\n".join(lines) + "\n" + _BY_DM + "\n".join(by_dm) + "\n" + _END


def _line_of(one: RefusedByDM) -> str:
    found = {refusal.kind for refusal in refusals(iter([one.trial]))}
    if found != one.kinds:
        raise SystemExit(f"{one.shown} is refused for {sorted(found)}, not for {sorted(one.kinds)}")
    return f"| {one.shown} | {one.reason} | {one.instead} |"


def _yaml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
