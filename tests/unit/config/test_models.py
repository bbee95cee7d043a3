"""Every key of DM's files is a field with DM's default, or is refused or retired by name."""

from __future__ import annotations

import pytest

from dm.config import ConfigErrors, read_task
from dm.config.units import SparkConfig
from tests.unit.config.texts import SOURCE, TASK, source, source_problems, task, task_problems


def test_source_defaults_are_dms() -> None:
    read = source()
    assert (read.enable, read.enable_gtid, read.enable_relay, read.flavor, read.server_id) == (
        True,
        False,
        False,
        "",
        0,
    )
    assert (read.purge.interval, read.purge.expires, read.purge.remain_space) == (3600, 0, 15)
    assert (read.checker.check_enable, read.checker.backoff_rollback, read.checker.backoff_max) == (True, 300, 300)
    assert (read.checker.check_interval, read.checker.backoff_min, read.checker.backoff_factor) == (5, 1, 2)
    assert read.case_sensitive is None


def test_task_defaults_are_dms() -> None:
    read = task()
    assert (read.meta_schema, read.online_ddl, read.clean_dump_file, read.collation_compatible) == (
        "dm_meta",
        True,
        True,
        "loose",
    )
    subtask = read.subtask("mysql-01")
    assert (subtask.dumper.threads, subtask.dumper.chunk_filesize, subtask.dumper.rows) == (4, 64 << 20, 200_000)
    assert (subtask.dumper.statement_size, subtask.dumper.consistency) == (1_000_000, "auto")
    assert (subtask.loader.pool_size, subtask.loader.dir, subtask.loader.on_duplicate_logical) == (
        16,
        "./dumped_data",
        "replace",
    )
    syncer = subtask.syncer
    assert (syncer.worker_count, syncer.batches, syncer.queue_size, syncer.checkpoint_flush_interval) == (
        16,
        (100, 1000),
        1024,
        30,
    )
    assert (syncer.compact, syncer.safe_mode, syncer.insert_mode, syncer.safe_mode_duration) == (
        True,
        False,
        "insert",
        None,
    )
    validator = subtask.validator
    assert (validator.mode, validator.worker_count, validator.max_pending_row_size) == ("none", 4, 500 << 20)
    assert subtask.spark.master == ""


EVERY_SOURCE_KEY = """\
source-id: a
enable: true
enable-gtid: true
flavor: mysql
enable-relay: true
relay-dir: ./relay
relay-binlog-gtid: ''
server-id: 101
case-sensitive: false
from:
  host: h
  port: 1
  user: u
  password: p
  session: {a: b}
purge: {interval: 1, expires: 2, remain-space: 3, pause-space: 0.5}
checker:
  check-enable: true
  backoff-rollback: 1s
  backoff-max: 2s
  check-interval: 1s
  backoff-min: 1s
  backoff-factor: 3
  backoff-jitter: false
filters:
  - {schema-pattern: a, table-pattern: b, events: [all], sql-pattern: [x], action: Ignore}
"""
EVERY_TASK_KEY = """\
name: a
task-mode: incremental
meta-schema: m
timezone: UTC
case-sensitive: true
ignore-checking-items: [all, version]
clean-dump-file: false
online-ddl: false
shadow-table-rules: ['^_(.+)_new$']
trash-table-rules: ['^_(.+)_old$']
collation_compatible: loose
experimental: {}
target-database: {host: h, port: 1, user: u, password: p, session: {a: b}}
mysql-instances:
  - source-id: mysql-01
    meta: {binlog-name: mysql-bin.000001, binlog-pos: 4, binlog-gtid: ''}
    route-rules: [r]
    filter-rules: [f]
    expression-filters: [e]
    block-allow-list: b
    mydumper-config-name: d
    mydumper-thread: 2
    loader-config-name: l
    loader-thread: 3
    syncer-config-name: s
    syncer-thread: 5
    validator-config-name: v
routes:
  r:
    schema-pattern: a
    table-pattern: b
    target-schema: c
    target-table: d
    extract-table: {table-regexp: (.*), target-column: x}
    extract-schema: {schema-regexp: (.*), target-column: y}
    extract-source: {source-regexp: (.*), target-column: z}
filters: {f: {schema-pattern: a, table-pattern: c, events: [insert], sql-pattern: [x], action: Do}}
expression-filter: {e: {schema: a, table: b, update-old-value-expr: a > 1, update-new-value-expr: a < 1}}
block-allow-list:
  b:
    do-dbs: [a]
    do-tables: [{db-name: a, tbl-name: b}]
    ignore-dbs: [c]
    ignore-tables: [{db-name: a, tbl-name: d}]
mydumpers:
  d: {threads: 4, chunk-filesize: 64M, statement-size: 1, rows: 1, where: a = 1, extra-args: --consistency none}
loaders: {l: {pool-size: 1, dir: d, import-mode: logical, on-duplicate-logical: error}}
syncers:
  s:
    worker-count: 1
    batch: 1
    queue-size: 1
    checkpoint-flush-interval: 1
    compact: true
    multiple-rows: false
    safe-mode: false
    safe-mode-duration: 10s
    insert-mode: replace
    missing-row: count
    narrower-columns: accept
    row-format: sql
    atomic-transactions: true
    conflicts: ignore
    ddl: pause
    memory-quota: 64M
validators:
  v:
    mode: full
    worker-count: 1
    validate-interval: 1s
    check-interval: 1s
    row-error-delay: 1s
    meta-flush-interval: 1s
    batch-query-size: 1
    max-pending-row-size: 1m
    max-pending-row-count: 1
spark:
  master: 'local[1]'
  conf: {spark.x: y}
  packages: ['org.example:jar:1.0']
  archives: ['env.tar.gz#environment']
  python: ./environment/bin/python
  num-executors: 2
  executor-cores: 3
  executor-memory: 2g
  driver-memory: 1g
  java-home: /opt/java
  json-types: text
  dump-files: all
  defer-indexes: true
  dump-format: parquet
"""


def test_every_key_can_be_set() -> None:
    assert [(warning.path, warning.code) for warning in source(EVERY_SOURCE_KEY).warnings] == [
        ("checker.check-interval", 20909),
    ]
    read = task(EVERY_TASK_KEY)
    assert read.warnings == ()
    subtask = read.subtask("mysql-01")
    assert (subtask.dumper.threads, subtask.loader.pool_size, subtask.syncer.worker_count) == (2, 3, 5)
    assert (subtask.dumper.consistency, subtask.dumper.where) == ("none", "a = 1")
    assert subtask.spark.settings == {
        "spark.x": "y",
        "spark.jars.packages": "org.example:jar:1.0",
        "spark.archives": "env.tar.gz#environment",
        "spark.executor.memory": "2g",
        "spark.executor.cores": "3",
        "spark.executor.instances": "2",
    }
    standalone = subtask.spark.model_copy(update={"master": "spark://host:7077"})
    assert standalone.settings["spark.cores.max"] == "6"


@pytest.mark.parametrize(("text", "value"), [("auto", "auto"), ("true", True), ("no", False)])
def test_indexes_are_put_off_always_never_or_where_it_pays(text: str, value: object) -> None:
    subtask = task(f"{TASK}spark: {{defer-indexes: {text}}}\n").subtask("mysql-01")
    assert subtask.spark.defer_indexes == value
    assert type(subtask).from_wire(subtask.to_wire()).spark.defer_indexes == value


def test_a_key_that_does_nothing_yet_says_so() -> None:
    (warning,) = task(f"{TASK}mariadb2tidb: {{mode: on}}\n").warnings
    assert (warning.path, warning.code) == ("mariadb2tidb.mode", 20909)
    assert "has no effect here: " in warning.message


@pytest.mark.parametrize(
    "line",
    [
        "timezone: UTC",
        "timezone: Asia/Shanghai",
        "mariadb2tidb: {mode: auto, enabled-rules: [], strict-mode: true}",
        "online-ddl: false",
        "    syncer: {compact: false}",
        "spark: {}",
    ],
)
def test_what_asks_for_what_is_the_case_anyway_needs_no_warning(line: str) -> None:
    assert task(f"{TASK}{line}\n").warnings == ()
    assert source(SOURCE + "enable: true\n").warnings == ()


@pytest.mark.parametrize(
    "line",
    [
        "auto-fix-gtid: true",
        "meta-dir: x",
        "charset: utf8",
        "tracer: {a: b}",
        "relay-ring-size: 8",
        "from: {host: a, max-allowed-packet: 1}",
    ],
)
def test_retired_source_keys_are_warnings(line: str) -> None:
    key = line.split(":", 1)[0]
    kept = "source-id: a\n" if key == "from" else SOURCE
    assert [warning.code for warning in source(f"{kept}{line}\n").warnings] == [20908]


@pytest.mark.parametrize(
    "line",
    [
        "ansi-quotes: true",
        "remove-meta: true",
        "enable-heartbeat: true",
        "heartbeat-update-interval: 1",
        "heartbeat-report-interval: 1",
        "online-ddl-scheme: gh-ost",
        "experimental: {async-checkpoint-flush: true}",
        "black-white-list: {b: {}}",
    ],
)
def test_retired_task_keys_are_warnings(line: str) -> None:
    assert [warning.code for warning in task(f"{TASK}{line}\n").warnings] == [20908]


@pytest.mark.parametrize(
    "section",
    [
        "mydumper: {mydumper-path: x}",
        "mydumper: {skip-tz-utc: true}",
        "loader: {on-duplicate: replace}",
        "loader: {import-mode: sql}",
        "syncer: {meta-file: x}",
        "syncer: {max-retry: 1}",
        "syncer: {auto-fix-gtid: true}",
        "syncer: {disable-detect: true}",
        "syncer: {enable-ansi-quotes: true}",
        "syncer: {enable-gtid: true}",
    ],
)
def test_retired_unit_keys_are_warnings(section: str) -> None:
    assert [warning.code for warning in task(f"{TASK}    {section}\n").warnings] == [20908]


def test_a_key_that_is_gone_says_what_to_do() -> None:
    (problem,) = task_problems(TASK + "    syncer: {conflict-policy: flush-on-overlap}\n")
    assert (problem.code, problem.path.rpartition(".")[2]) == (20907, "conflict-policy")
    assert "it is gone, leave it out" in str(problem)


def test_the_old_name_of_the_lists_works_and_the_new_one_wins() -> None:
    old = TASK + "    black-white-list: b\nblack-white-list:\n  b: {do-dbs: [old]}\n"
    lists = task(old).subtask("mysql-01").block_allow_list
    assert lists is not None
    assert lists.do_dbs == ("old",)
    (warning,) = task(old).warnings
    assert (warning.code, warning.line) == (20940, 10)
    assert "`black-white-list` (lines 10, 11: use `block-allow-list`)" in warning.message
    both = TASK + "    black-white-list: b\n    block-allow-list: c\nblock-allow-list:\n  b: {}\n  c: {do-dbs: [new]}\n"
    lists = task(both).subtask("mysql-01").block_allow_list
    assert lists is not None
    assert lists.do_dbs == ("new",)


def test_a_start_of_the_wrong_kind_of_the_relay_is_a_warning() -> None:
    assert [w.path for w in source(SOURCE + "enable-gtid: true\nrelay-binlog-name: mysql-bin.000002\n").warnings] == [
        "relay-binlog-name"
    ]
    assert [w.path for w in source(SOURCE + "relay-binlog-gtid: 0-1-2\n").warnings] == ["relay-binlog-gtid"]


def test_a_start_point_that_is_not_used_is_a_warning() -> None:
    read = task(TASK + "    meta: {binlog-name: mysql-bin.000001}\n")
    assert [warning.path for warning in read.warnings] == ["mysql-instances[0].meta"]


@pytest.mark.parametrize(
    ("arguments", "consistency", "threads"),
    [
        ("--consistency none", "none", 4),
        ("--consistency=flush -t 8", "flush", 8),
        ("-t8 --no-locks", "none", 8),
        ("--no-views -W --escape-backslash=false", "auto", 4),
        ("--no-locks=false --threads=2", "auto", 2),
    ],
)
def test_dumplings_options_are_understood(arguments: str, consistency: str, threads: int) -> None:
    dumper = task(f'{TASK}    mydumper: {{extra-args: "{arguments}"}}\n').subtask("mysql-01").dumper
    assert (dumper.consistency, dumper.threads) == (consistency, threads)


def test_foreign_key_checks_turn_multiple_rows_off_by_themselves() -> None:
    assert task().subtask("mysql-01").syncer.multiple_rows is True
    checked = task(TASK.replace("  user: dm", "  user: dm\n  session: {foreign_key_checks: 1}")).subtask("mysql-01")
    assert (checked.foreign_key_checks, checked.syncer.multiple_rows) == (True, False)


def test_a_task_can_be_read_before_its_sources_are_known() -> None:
    assert read_task(TASK).source_ids == ("mysql-01",)
    with pytest.raises(ConfigErrors, match="there is no source 'mysql-01'"):
        read_task(TASK, {})


def test_tls_files_are_found_beside_the_file() -> None:
    (problem,) = source_problems(SOURCE + "  security: {ssl-ca: not-there.pem}\n")
    assert problem.message == "can't read the file: No such file or directory"
    codes = [
        problem.code for problem in task_problems(TASK.replace("  user: dm", "  user: dm\n  security: {ssl-cert: x}"))
    ]
    assert codes == [20917]


@pytest.mark.parametrize(
    ("master", "cores", "threads", "used"),
    [
        ("", 2, 4, "local[4]"),
        ("", 2, 3, "local[3]"),
        ("", 1, 64, "local[2]"),
        ("", 4, 4, "local[*]"),
        ("local[*]", 2, 4, "local[*]"),
        ("yarn", 2, 4, "yarn"),
    ],
)
def test_few_cores_get_more_workers_where_no_master_is_named(
    master: str, cores: int, threads: int, used: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(cores)))
    assert SparkConfig(master=master).master_for(threads) == used
