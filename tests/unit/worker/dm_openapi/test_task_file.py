"""A task in DM's OpenAPI shape and as a task file: what goes over and comes back is equal, the rest is an error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from dm.config import SourceConfig, TaskConfig, read_source, read_task
from dm.config.rules import ALIASES, EVENT_NAMES
from dm.errors import DMError
from dm.worker.dm_openapi.source_file import source_as_file, source_as_shape, with_secrets
from dm.worker.dm_openapi.source_shapes import DMPurge, DMSecurity, DMSource, RelayConfig
from dm.worker.dm_openapi.task_file import normal, task_as_file, task_as_shape
from dm.worker.dm_openapi.task_shapes import DMTask

SOURCES = ("one", "two", "three")
PEM = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"


def known(**files: str) -> dict[str, SourceConfig]:
    return {
        name: read_source(f"source-id: {name}\nfrom: {{host: h, port: 3306, user: u}}\n{files.get(name, '')}")
        for name in SOURCES
    }


def read(task: DMTask) -> TaskConfig:
    return read_task(task_as_file(task), known(), environ={})


NAMES = st.text("ab_$é Ж'\"#:-", min_size=1, max_size=6).map(str.strip).filter(lambda name: name not in ("", "~"))
PATTERNS = st.builds(lambda name, tail: name + tail, NAMES, st.sampled_from(["", "*", "?", "[0-9]"]))
EVENTS = st.sampled_from(sorted(EVENT_NAMES - ALIASES.keys()))
PASSWORDS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=12).filter(
    lambda text: not text.startswith("${") and text != "******"
)


@st.composite
def filters(draw: st.DrawFn) -> dict[str, Any]:
    """Rules that several tables may share, some of equal content."""
    statements = st.sampled_from(["^DROP", "TRUNCATE", "a.*b", "é'\""])
    content = st.fixed_dictionaries(
        {},
        optional={
            "ignore_event": st.lists(EVENTS, min_size=1, max_size=3, unique=True),
            "ignore_sql": st.lists(statements, min_size=1, max_size=2, unique=True),
        },
    ).filter(bool)
    return draw(st.dictionaries(st.sampled_from(["f", "f.2", "g", "f+g", "x y"]), content, max_size=4))


@st.composite
def tasks(draw: st.DrawFn) -> DMTask:
    """Tasks that the shape can say, with all that may be left out left out or not."""
    sources = draw(st.lists(st.sampled_from(SOURCES), min_size=1, unique=True))
    named = draw(filters())
    exceptions = {
        name for name, rule in named.items() if any(e.startswith("none") for e in rule.get("ignore_event", ()))
    }
    rules = list[dict[str, Any]]()
    for source in sources:
        whole = draw(st.booleans())
        tables = st.just("") if whole else PATTERNS
        for schema, table in draw(st.lists(st.tuples(PATTERNS, tables), max_size=3, unique_by=_folded)):
            rule: dict[str, Any] = {"source": {"source_name": source, "schema": schema, "table": table}}
            if draw(st.booleans()):
                rule["target"] = {"schema": draw(NAMES)} | (
                    {} if whole or draw(st.booleans()) else {"table": draw(NAMES)}
                )
            used = draw(st.lists(st.sampled_from(sorted(named)), max_size=3)) if named else []
            if used and (len({*used}) == 1 or not exceptions & {*used}):
                rule["binlog_filter_rule"] = used
            rules.append(rule)
    numbers = st.integers(1, 1024)
    full = {"export_threads": numbers, "import_threads": numbers, "data_dir": st.sampled_from(["./d", "/x/y"]),
            "consistency": st.sampled_from(["auto", "none", "flush", "lock"])}  # fmt: skip
    name: dict[str, st.SearchStrategy[Any]] = {"binlog_name": st.just("mysql-bin.000007")}
    places = st.fixed_dictionaries(name, optional={"binlog_pos": st.integers(4, 10**9)})
    mode = draw(st.sampled_from(["full", "incremental", "all"]))
    starts = [{"source_name": each} | (draw(places) if mode == "incremental" else {}) for each in sources]
    security = {"ssl_ca_content": PEM} | draw(st.sampled_from([{}, {"cert_allowed_cn": ["a", "b"]}]))
    return DMTask.model_validate(
        draw(
            st.fixed_dictionaries(
                {
                    "name": st.sampled_from(["t", "task-1"]),
                    "task_mode": st.just(mode),
                    "enhance_online_schema_change": st.booleans(),
                    "on_duplicate": st.sampled_from(["replace", "error", "ignore", "overwrite"]),
                    "target_config": st.fixed_dictionaries(
                        {"host": st.just("h"), "port": st.integers(1, 65535), "user": NAMES, "password": PASSWORDS},
                        optional={"security": st.sampled_from([security, {"cert_allowed_cn": ["string"]}])},
                    ),
                    "table_migrate_rule": st.just(rules),
                    "source_config": st.fixed_dictionaries(
                        {"source_conf": st.just(starts)},
                        optional={
                            "full_migrate_conf": st.fixed_dictionaries({}, optional=full),
                            "incr_migrate_conf": st.fixed_dictionaries(
                                {}, optional={"repl_threads": numbers, "repl_batch": numbers}
                            ),
                        },
                    ),
                },
                optional={
                    "shard_mode": st.sampled_from(["pessimistic", "optimistic"]),
                    "meta_schema": st.sampled_from(["m", "dm-meta"]),
                    "binlog_filter_rule": st.just(named),
                    "ignore_checking_items": st.just(["version"]),
                },
            ).map(lambda said: {**said, "binlog_filter_rule": named})
        )
    )


def _folded(patterns: tuple[str, str]) -> tuple[str, str]:
    return patterns[0].lower(), patterns[1].lower()


def left_out(task: DMTask) -> list[tuple[Any, ...]]:
    """What each rule means: its tables, where they go, which events and statements are left out."""
    named = task.binlog_filter_rule or {}
    order = [each.source_name for each in task.source_config.source_conf]
    found = []
    for rule in sorted(task.table_migrate_rule, key=lambda one: order.index(one.source.source_name)):
        used = [named[name] for name in rule.binlog_filter_rule or ()]
        events = list(dict.fromkeys(event for each in used for event in each.ignore_event or ()))
        statements = list(dict.fromkeys(text for each in used for text in each.ignore_sql or ()))
        found.append((rule.source, rule.target, events, statements))
    return found


def goes_over_and_comes_back(task: DMTask) -> None:
    text, sources = task_as_file(task), known()
    config = read_task(text, sources, environ={})
    told = task_as_shape(config, sources)
    assert told.keys == ()
    assert told.task == normal(task)
    assert normal(told.task) == told.task
    assert task_as_file(told.task) == text
    assert left_out(told.task) == left_out(task)
    for rule in task.table_migrate_rule:
        routes = config.subtask(rule.source.source_name).routes
        there = [each for each in routes if each.schema_pattern == rule.source.schema_]
        assert rule.target is None or rule.target.schema_ in [each.target_schema for each in there]


@settings(max_examples=25)
@given(tasks())
def test_a_task_goes_into_a_file_and_comes_back(task: DMTask) -> None:
    note(task.model_dump_json(exclude_none=True))
    goes_over_and_comes_back(task)


@pytest.mark.chaos
@settings(max_examples=500)
@given(tasks())
def test_many_tasks_go_into_files_and_come_back(task: DMTask) -> None:
    note(task.model_dump_json(exclude_none=True))
    goes_over_and_comes_back(task)


BASE = """
name: t
task-mode: all
target-database: {host: h, port: 4000, user: u, password: p}
mysql-instances:
  - {source-id: one, block-allow-list: b, route-rules: [r], filter-rules: [f]}
  - {source-id: two, block-allow-list: b, filter-rules: [f]}
block-allow-list:
  b: {do-tables: [{db-name: s, tbl-name: t*}]}
routes:
  r: {schema-pattern: s, table-pattern: t*, target-schema: x}
filters:
  f: {schema-pattern: s, table-pattern: t*, events: [truncate table], action: Ignore}
"""


def test_a_file_of_a_person_is_told_with_its_names() -> None:
    told = task_as_shape(read_task(BASE, known()), known())
    assert told.keys == ()
    assert [*(told.task.binlog_filter_rule or {})] == ["f"]
    assert told.task.target_config.password == "p"
    assert [rule.target is None for rule in told.task.table_migrate_rule] == [False, True]


@pytest.mark.parametrize(
    ("key", "before", "after"),
    [
        ("block-allow-list", "{do-tables: [{", "{ignore-dbs: [z], do-tables: [{"),
        ("block-allow-list", "{do-tables: [{", "{do-dbs: [s], do-tables: [{"),
        ("routes", "target-schema: x}", "target-schema: x, extract-table: {table-regexp: 't(.*)', target-column: c}}"),
        ("routes", "r: {schema-pattern: s, table-pattern: t*", "r: {schema-pattern: s, table-pattern: t_other"),
        ("filters", "action: Ignore", "action: Do"),
        ("filters", "f: {schema-pattern: s, table-pattern: t*", "f: {schema-pattern: '*'"),
        ("target-database", "user: u,", "user: u, session: {sql_mode: ANSI},"),
        ("timezone", "task-mode: all", "task-mode: all\ntimezone: Europe/Berlin"),
        ("spark", "task-mode: all", "task-mode: all\nspark: {defer-indexes: false}"),
        ("case-sensitive", "task-mode: all", "task-mode: all\ncase-sensitive: true"),
        ("task-mode", "task-mode: all", "task-mode: load&sync"),
        ("merge-order", "task-mode: all", "task-mode: all\nmerge-order: commit-time"),
        ("syncers", "{source-id: two,", "{source-id: two, syncer: {safe-mode: true},"),
        ("mydumpers", "{source-id: two,", "{source-id: two, mydumper: {rows: 7},"),
        ("loaders", "{source-id: two,", "{source-id: two, loader-thread: 3,"),
        ("opposite", "{source-id: two,", "{source-id: two, opposite: back,"),
    ],
)
def test_what_the_shape_has_no_field_for_is_named(key: str, before: str, after: str) -> None:
    assert before in BASE
    told = task_as_shape(read_task(BASE.replace(before, after), known()), known())
    assert key in told.keys


def minimal(**more: Any) -> dict[str, Any]:
    task = {
        "name": "t", "task_mode": "all", "enhance_online_schema_change": True, "on_duplicate": "error",
        "target_config": {"host": "h", "port": 1, "user": "u", "password": ""},
        "table_migrate_rule": [{"source": {"source_name": "one", "schema": "s", "table": "t"}}],
        "source_config": {"source_conf": [{"source_name": "one"}]},
    }  # fmt: skip
    return {**task, **more}


def rule(schema: str, table: str, *filters: str, source: str = "one") -> dict[str, Any]:
    return {"source": {"source_name": source, "schema": schema, "table": table}, "binlog_filter_rule": [*filters]}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (
            {"table_migrate_rule": [rule("s", ""), rule("z", "t")]},
            "rules for whole schemas and rules for single tables",
        ),
        ({"table_migrate_rule": [rule("s", "t"), rule("s", "t")]}, "two rules of source one"),
        ({"table_migrate_rule": [rule("s", "t", source="two")]}, "source two, which is not in `source_conf`"),
        ({"table_migrate_rule": [rule("s", "t", "f")]}, "has no rule f"),
        (
            {
                "table_migrate_rule": [rule("s", "t", "f", "g")],
                "binlog_filter_rule": {"f": {"ignore_event": ["none dml", "all"]}, "g": {"ignore_event": ["insert"]}},
            },
            "exceptions",
        ),
        (
            {
                "source_config": {
                    "source_conf": [{"source_name": "one"}],
                    "full_migrate_conf": {"import_mode": "physical"},
                }
            },
            "'physical'",
        ),
        (
            {"source_config": {"source_conf": [{"source_name": "one"}], "full_migrate_conf": {"sorting_dir": "./s"}}},
            "sorting-dir",
        ),
        ({"source_config": {"source_conf": [{"source_name": "four"}]}, "table_migrate_rule": []}, "four"),
        ({"table_migrate_rule": [{**rule("s", "t"), "target": {"table": "x"}}]}, "target-schema"),
        ({"ignore_checking_items": ["nothing"]}, "nothing"),
    ],
)
def test_what_makes_no_task_is_an_error_that_says_why(more: dict[str, Any], said: str) -> None:
    with pytest.raises(DMError) as refused:
        read(DMTask.model_validate(minimal(**more)))
    assert said in str(refused.value)


NUMBERS = st.integers(0, 9)
SOURCE = st.builds(
    DMSource,
    source_name=st.sampled_from(SOURCES), host=st.just("h"), port=st.integers(1, 65535), user=NAMES, password=PASSWORDS,
    enable_gtid=st.booleans(), flavor=st.sampled_from([None, "mysql", "mariadb"]),
    security=st.sampled_from([None, DMSecurity(), DMSecurity(ssl_ca_content=PEM)]),
    purge=st.none() | st.builds(DMPurge, interval=NUMBERS, expires=NUMBERS, remain_space=NUMBERS),
    relay_config=st.none() | st.builds(
        RelayConfig, enable_relay=st.booleans(), relay_dir=st.sampled_from([None, "./r"]),
        relay_binlog_name=st.sampled_from([None, "mysql-bin.000002"]),
    ),
)  # fmt: skip


@settings(max_examples=25)
@given(SOURCE)
def test_a_source_goes_into_a_file_and_comes_back(source: DMSource) -> None:
    told = source_as_shape(read_source(source_as_file(source), environ={}))
    assert told.keys_without_field is None
    for name in ("source_name", "host", "port", "user", "password", "enable_gtid", "flavor"):
        assert getattr(told, name) == getattr(source, name)
    assert told.purge == (source.purge or DMPurge(interval=3600, expires=0, remain_space=15))
    assert (told.security is not None) == (source.security is not None and source.security.says_something)
    relay = source.relay_config or RelayConfig()
    assert told.relay_config == relay.model_copy(update={"enable_relay": bool(relay.enable_relay)})
    assert source_as_file(told) == source_as_file(source_as_shape(read_source(source_as_file(told), environ={})))


@pytest.mark.parametrize("key", ["server-id: 7", "case-sensitive: true", "checker: {check-enable: false}"])
def test_keys_of_a_source_without_a_field_are_named(key: str) -> None:
    told = source_as_shape(known(one=key)["one"])
    assert told.keys_without_field == [key.partition(":")[0]]


def test_an_update_that_brings_no_secret_keeps_those_of_before() -> None:
    before = DMSource(
        source_name="s", host="h", port=1, user="u", password="p", security=DMSecurity(ssl_ca_content=PEM)
    )
    for password in (None, "******"):
        kept = with_secrets(before.model_copy(update={"password": password, "security": None, "host": "i"}), before)
        assert (kept.password, kept.security, kept.host) == ("p", before.security, "i")
    given = with_secrets(before.model_copy(update={"password": "", "security": DMSecurity()}), before)
    assert given.password == ""
    assert given.security is not None
    assert not given.security.says_something


def test_a_certificate_that_is_a_file_of_the_host_is_not_told(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text(PEM.replace("AAAA", "canary"))
    file = BASE.replace("password: p", f"password: p, security: {{ssl-ca: {tmp_path / 'ca.pem'}}}")
    told = task_as_shape(read_task(file, known()), known())
    assert told.keys == ("target-database",)
    assert "canary" not in told.task.model_dump_json()
