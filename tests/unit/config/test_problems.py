"""Everything that can be wrong with a file is said at once, with its place and what to do."""

from __future__ import annotations

import pytest

from dm.config import ConfigErrors, read_task
from tests.unit.config.texts import SOURCE, TASK, source, task_problems


def test_all_problems_of_a_file_come_at_once_in_its_order() -> None:
    text = """\
name: ../shop
task-mode: al
meta-schem: dm_meta
target-database: {host: target, port: "3306", user: root}
mysql-instances:
  - source-id: mysql-02
    route-rules: [r1, r3]
    syncer-config-name: globl
routes:
  r1: {schema-pattern: "a*b", target-schema: x}
  r2: {schema-pattern: "~(?=a)", target-schema: x}
syncers:
  global: {worker-count: many, batch: 0, batch: 3}
"""
    with pytest.raises(ConfigErrors) as raised:
        read_task(text, {"mysql-01": source()}, file="task.yaml")
    found = [(problem.line, problem.column, problem.path, problem.code) for problem in raised.value.problems]
    assert found == [
        (1, 7, "name", 20914),
        (2, 12, "task-mode", 20020),
        (3, 1, "meta-schem", 20003),
        (4, 39, "target-database.port", 20911),
        (6, 16, "mysql-instances[0].source-id", 20031),
        (7, 23, "mysql-instances[0].route-rules[1]", 20023),
        (8, 25, "mysql-instances[0].syncer-config-name", 20030),
        (10, 24, "routes.r1.schema-pattern", 20045),
        (11, 3, "routes.r2", 20038),
        (11, 24, "routes.r2.schema-pattern", 20045),
        (13, 3, "syncers.global", 20038),
        (13, 26, "syncers.global.worker-count", 20912),
        (13, 42, "syncers.global.batch", 20905),
    ]
    lines = str(raised.value).splitlines()
    assert "task.yaml: 13 problems" in lines[0]
    assert lines[2] == (
        "task.yaml:2:12: task-mode: unknown task mode 'al'; expected one of `full`, `incremental`, `all`, `dump`, "
        "`load`, `load&sync`; did you mean `all`? [20020]"
    )


TASK_CASES = [
    ("name: ''", "name", 20004),
    ("name: ../etc", "name", 20914),
    ("name: .x", "name", 20914),
    ("name: a b", "name", 20914),
    (f"name: {'a' * 39}", "name", 20914),
    ("name: [a]", "name", 20911),
    ("task-mode: sync", "task-mode", 20020),
    ("mysql-instances: []", "mysql-instances", 20013),
    ("mysql-instances: {source-id: mysql-01}", "mysql-instances", 20911),
    ("mysql-instances: [{}]", "mysql-instances[0].source-id", 20906),
    ("mysql-instances: [mysql-01]", "mysql-instances[0]", 20911),
    ("mysql-instances: [{source-id: mysql-1}]", "mysql-instances[0].source-id", 20031),
    ("mysql-instances: [{source-id: mysql-01}, {source-id: mysql-01}]", "mysql-instances[1].source-id", 20014),
    (
        "mysql-instances: [{source-id: mysql-01, column-mapping-rules: [a]}]",
        "mysql-instances[0].column-mapping-rules",
        20064,
    ),
    ("mysql-instances: [{source-id: mysql-01, filter-rules: [f]}]", "mysql-instances[0].filter-rules[0]", 20024),
    ("mysql-instances: [{source-id: mysql-01, block-allow-list: b}]", "mysql-instances[0].block-allow-list", 20026),
    (
        "mysql-instances: [{source-id: mysql-01, expression-filters: [e]}]",
        "mysql-instances[0].expression-filters[0]",
        20040,
    ),
    (
        "mysql-instances: [{source-id: mysql-01, mydumper-config-name: m}]",
        "mysql-instances[0].mydumper-config-name",
        20027,
    ),
    ("mysql-instances: [{source-id: mysql-01, loader-config-name: l}]", "mysql-instances[0].loader-config-name", 20029),
    (
        "mysql-instances: [{source-id: mysql-01, validator-config-name: v}]",
        "mysql-instances[0].validator-config-name",
        20056,
    ),
    ("mysql-instances: [{source-id: mysql-01, route-rules: r}]", "mysql-instances[0].route-rules", 20911),
    ("target-database:", "target-database", 20021),
    ("shard-mode: pessimistc", "shard-mode", 20033),
    ("strict-optimistic-shard-mode: true", "strict-optimistic-shard-mode", 20066),
    ("shard-mode: optimistic\nmerge-order: commit-time", "merge-order", 20990),
    ("meta-schema: a.b", "meta-schema", 20914),
    ("timezone: Mars/Olympus", "timezone", 20008),
    ("timezone: Local", "timezone", 20008),
    ("timezone: SYSTEM", "timezone", 20008),
    ("timezone: '+14:01'", "timezone", 20008),
    ("timezone: '-13:00'", "timezone", 20008),
    ("ignore-checking-items: [verison]", "ignore-checking-items[0]", 20001),
    ("online-ddl-scheme: ghost", "online-ddl-scheme", 20007),
    ("shadow-table-rules: ['^_(.+)_(new|gho)$']", "shadow-table-rules[0]", 20048),
    ("trash-table-rules: ['^_.+_del$']", "trash-table-rules[0]", 20048),
    ("trash-table-rules: ['(']", "trash-table-rules[0]", 20048),
    ("collation_compatible: exact", "collation_compatible", 20052),
    ("column-mappings: {a: b}", "column-mappings", 20064),
    ("mariadb2tidb: {mode: always}", "mariadb2tidb.mode", 20912),
    ("spark: {master: [a]}", "spark.master", 20911),
    ("spark: {master: 'sparkk://host'}", "spark.master", 20912),
    ("spark: {master: 'local[four]'}", "spark.master", 20912),
    ("meta-schema: 'a%b'", "meta-schema", 20914),
    ("spark: {driver-memory: lots}", "spark.driver-memory", 20912),
    ("spark: {executor-memory: lots}", "spark.executor-memory", 20912),
    ("spark: {num-executors: 0}", "spark.num-executors", 20912),
    ("spark: {master: 'spark://host:7077', num-executors: 2}", "spark.num-executors", 20913),
    ("spark: {conf: {spark.speculation: 'true'}}", "spark.conf", 20913),
    ("spark: {conf: {spark.authenticate: 'false'}}", "spark.conf", 20913),
    ("spark: {conf: {spark.submit.deployMode: cluster}}", "spark.conf", 20913),
    ("spark: {conf: {spark.master: yarn}}", "spark.conf", 20913),
    ("spark: {dump-format: csv}", "spark.dump-format", 20912),
    ("spark: {dump-files: some}", "spark.dump-files", 20912),
    ("spark: {defer-indexes: later}", "spark.defer-indexes", 20912),
    ("spark: {defer-indexes: 'true'}", "spark.defer-indexes", 20911),
    ("routes: [a]", "routes", 20911),
]


@pytest.mark.parametrize(("line", "path", "code"), TASK_CASES, ids=[case[0] for case in TASK_CASES])
def test_a_bad_key_of_a_task_file_is_named(line: str, path: str, code: int) -> None:
    assert [(problem.path, problem.code) for problem in task_problems(_with(line))] == [(path, code)]


@pytest.mark.parametrize(
    ("mode", "section", "hint"),
    [
        ("incremental", "", "it is for `full` and `all`"),
        ("dump", "", "it is for `full` and `all`"),
        ("full", "", "--consistency none"),
        ("all", "mydumper: {extra-args: --consistency flush}", "--consistency none"),
        ("all", "loader: {on-duplicate-logical: error}", "another `on-duplicate-logical`"),
        ("full", "mydumper: {extra-args: --consistency none}", None),
        ("all", "", None),
    ],
)
def test_files_are_only_left_out_where_a_copy_can_go_on(mode: str, section: str, hint: str | None) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}") + (f"    {section}\n" if section else "")
    problems = task_problems(f"{text}spark: {{dump-files: none}}\n")
    assert [(problem.path, problem.code) for problem in problems] == ([] if hint is None else [("spark", 20913)])
    assert hint is None or hint in str(problems[0])


@pytest.mark.parametrize("mode", ["shard-mode: pessimistic", "is-sharding: true"])
@pytest.mark.parametrize(
    ("other", "key"),
    [
        ("    syncer: {atomic-transactions: true}\n", "atomic-transactions: true"),
        ("    syncer: {atomic-transactions: false}\n", ""),
    ],
)
def test_shards_are_not_merged_in_whole_transactions(mode: str, other: str, key: str) -> None:
    problems = [problem for problem in task_problems(f"{TASK}{other}{mode}\n") if problem.code == 20946]
    assert [(problem.path, key in str(problem)) for problem in problems] == ([("shard-mode", True)] if key else [])


def test_shards_are_not_merged_where_the_target_checks_foreign_keys() -> None:
    text = TASK.replace("  password: secret\n", "  password: secret\n  session: {foreign_key_checks: 1}\n")
    problems = task_problems(f"{text}shard-mode: pessimistic\n")
    assert [(problem.path, problem.code) for problem in problems] == [("shard-mode", 20946)]
    assert "foreign_key_checks: 1" in str(problems[0])


SECTION_CASES = [
    ("mydumper: {threads: -1}", "mydumper.threads", 20912),
    ("mydumper: {chunk-filesize: big}", "mydumper.chunk-filesize", 20047),
    ("mydumper: {extra-args: --snapshot 1}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: -T orders}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: -B}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: -f /shop.*}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: -T a.b -f a.*}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: --consistency maybe}", "mydumper.extra-args", 20921),
    ("mydumper: {extra-args: --threads x}", "mydumper.extra-args", 20921),
    ("mydumper: {threads: abc, extra-args: -t 8}", "mydumper.threads", 20912),
    ("mydumper: {threads: [1], extra-args: -t 8}", "mydumper.threads", 20911),
    ("mydumper: {chunk-filesize: abc, extra-args: -F 64M}", "mydumper.chunk-filesize", 20047),
    ("mydumper: {threads: abc, extra-args: --consistency none}", "mydumper.threads", 20912),
    ("mydumper: {extra-args: '--where \"a'}", "mydumper.extra-args", 20921),
    ("loader: {import-mode: physical}", "loader.import-mode", 20053),
    ("loader: {import-mode: import-into}", "loader.import-mode", 20053),
    ("loader: {import-mode: fast}", "loader.import-mode", 20053),
    ("loader: {on-duplicate-logical: skip}", "loader.on-duplicate-logical", 20054),
    ("loader: {sorting-dir-physical: /tmp}", "loader.sorting-dir-physical", 20907),
    ("loader: {pd-addr: a}", "loader.pd-addr", 20907),
    ("loader: {dir: gcs://bucket/x}", "loader.dir", 20913),
    ("syncer: {safe-mode: true, safe-mode-duration: 0s}", "syncer.safe-mode-duration", 20061),
    ("syncer: {safe-mode-duration: 60}", "syncer.safe-mode-duration", 20912),
    ("syncer: {insert-mode: upsert}", "syncer.insert-mode", 20912),
    ("syncer: {conflicts: later-wins}", "syncer.conflicts", 20912),
    ("syncer: {conflicts: target-wins, atomic-transactions: true}\n    opposite: back", "syncer.conflicts", 20913),
    ("syncer: {conflicts: source-wins}\n    opposite: back", "syncer.conflicts", 20913),
    ("syncer: {conflicts: pause}", "syncer.conflicts", 20913),
    ("syncer: {conflicts: pause, atomic-transactions: true, safe-mode: true}", "syncer.conflicts", 20913),
    ("syncer: {conflicts: pause, atomic-transactions: true, missing-row: count}", "syncer.conflicts", 20913),
    ("syncer: {conflicts: pause, atomic-transactions: true, insert-mode: replace}", "syncer.conflicts", 20913),
    ("syncer: {ddl: skip}", "syncer.ddl", 20912),
    ("syncer: {on-error: row}", "syncer.on-error", 20912),
    ("syncer: {on-error: table, aside-tables: 0}", "syncer.aside-tables", 20912),
    ("syncer: {on-error: table, atomic-transactions: true}", "syncer.on-error", 20913),
    ("syncer: {worker-cout: 4}", "syncer.worker-cout", 20003),
]


@pytest.mark.parametrize(("section", "path", "code"), SECTION_CASES)
def test_a_bad_unit_section_is_named(section: str, path: str, code: int) -> None:
    text = TASK + f"    {section}\n"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [(f"mysql-instances[0].{path}", code)]


@pytest.mark.parametrize(
    "tie",
    [
        "    validator-config-name: v\nvalidators: {v: {mode: full}}\n",
        "shard-mode: optimistic\n",
        "merge-order: commit-time\n",
    ],
)
def test_a_table_is_put_aside_alone_only_where_nothing_ties_it_to_others(tie: str) -> None:
    found = task_problems(f"{TASK}    syncer: {{on-error: table}}\n{tie}")
    assert {(problem.path, problem.code) for problem in found} == {("mysql-instances", 20913)}
    assert task_problems(f"{TASK}    syncer: {{on-error: table}}\n") == ()


def test_a_side_wins_only_with_an_opposite_and_without_what_leaves_rows_out() -> None:
    wins = "    syncer: {conflicts: source-wins, atomic-transactions: true}\n"
    names = "    filter-rules: [f]\n    validator-config-name: v\n"
    rules = "filters: {f: {schema-pattern: a, events: [delete], action: Ignore}}\nvalidators: {v: {mode: full}}\n"
    alone = task_problems(TASK + wins + names + rules)
    assert {(problem.path, problem.code) for problem in alone} == {("mysql-instances", 20913)}
    assert len(alone) == 3
    assert task_problems(TASK + wins + "    opposite: back\n") == ()


RULE_CASES = [
    ("routes", "route-rules", "{target-schema: a}", "schema-pattern", 20906),
    ("routes", "route-rules", "{schema-pattern: '', target-schema: a}", "schema-pattern", 20045),
    ("routes", "route-rules", "{schema-pattern: a}", "target-schema", 20906),
    ("routes", "route-rules", "{schema-pattern: a, target-schema: ''}", "target-schema", 20045),
    ("routes", "route-rules", "{schema-pattern: a, target-schema: b, target-tables: c}", "target-tables", 20003),
    ("routes", "route-rules", "{schema-pattern: '~(', target-schema: b}", "schema-pattern", 20045),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, table-pattern: 't[0-63]', target-schema: b}",
        "table-pattern",
        20045,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-table: {target-column: c}}",
        "extract-table.table-regexp",
        20906,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-table: {table-regexp: 't_.*', target-column: c}}",
        "extract-table.table-regexp",
        20045,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-schema: {schema-regexp: '~(.*)', target-column: c}}",
        "extract-schema.schema-regexp",
        20045,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-source: {source-regexp: '(', target-column: c}}",
        "extract-source.source-regexp",
        20045,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-source: {source-regexp: '(.*)', target-column: ''}}",
        "extract-source.target-column",
        20045,
    ),
    (
        "routes",
        "route-rules",
        "{schema-pattern: a, target-schema: b, extract-source: {source-regexp: '(.*)', target-column: c},"
        " extract-table: {table-regexp: '(.*)', target-column: C}}",
        "extract-source",
        20045,
    ),
    ("filters", "filter-rules", "{schema-pattern: a, events: [all]}", "action", 20906),
    ("filters", "filter-rules", "{schema-pattern: 'a*b', events: [all], action: Do}", "schema-pattern", 20037),
    ("filters", "filter-rules", "{schema-pattern: '~a', events: [all], action: Do}", "schema-pattern", 20037),
    ("filters", "filter-rules", "{schema-pattern: a, sql-pattern: ['('], action: Ignore}", "sql-pattern[0]", 20037),
    ("filters", "filter-rules", "{schema-pattern: 'a[1-12]', events: [all], action: Do}", "schema-pattern", 20037),
    ("filters", "filter-rules", "{schema-pattern: a, sql-pattern: [x], action: Do}", "events", 20037),
    ("expression-filter", "expression-filters", "{table: t, insert-value-expr: a = 1}", "schema", 20042),
    ("expression-filter", "expression-filters", "{schema: s, insert-value-expr: a = 1}", "table", 20042),
    (
        "expression-filter",
        "expression-filters",
        "{schema: s, table: t, insert-value-expr: a = 1, delete-value-expr: b}",
        "",
        20039,
    ),
    ("expression-filter", "expression-filters", "{schema: s, table: t}", "", 20041),
    (
        "expression-filter",
        "expression-filters",
        "{schema: s, table: t, insert-value-expr: a = }",
        "insert-value-expr",
        20041,
    ),
    (
        "expression-filter",
        "expression-filters",
        "{schema: s, table: t, insert-value-expr: rand() > a}",
        "insert-value-expr",
        20041,
    ),
]


@pytest.mark.parametrize(("section", "key", "rule", "path", "code"), RULE_CASES)
def test_a_bad_rule_is_named(section: str, key: str, rule: str, path: str, code: int) -> None:
    text = TASK + f"    {key}: [x]\n{section}:\n  x: {rule}\n"
    expected = f"{section}.x.{path}" if path else f"{section}.x"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [(expected, code)]


@pytest.mark.parametrize(
    ("section", "rule"),
    [
        ("routes", "{schema-pattern: a, target-schema: b}"),
        ("filters", "{schema-pattern: a, events: [all], action: Do}"),
        ("expression-filter", "{schema: s, table: t, insert-value-expr: a = 1}"),
        ("mydumpers", "{threads: 1}"),
        ("loaders", "{pool-size: 1}"),
        ("syncers", "{batch: 1}"),
        ("validators", "{mode: full}"),
    ],
)
def test_what_no_instance_names_is_a_problem(section: str, rule: str) -> None:
    text = TASK + f"{section}:\n  unused: {rule}\n"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [(f"{section}.unused", 20038)]


def test_an_unreferenced_block_allow_list_is_none() -> None:
    assert task_problems(TASK + "block-allow-list:\n  unused: {do-dbs: [a]}\n") == ()


@pytest.mark.parametrize(
    ("name", "section", "code"),
    [
        ("mydumper-config-name: x\n    mydumper: {threads: 1}", "mydumpers", 20015),
        ("loader-config-name: x\n    loader: {pool-size: 1}", "loaders", 20016),
        ("syncer-config-name: x\n    syncer: {batch: 1}", "syncers", 20017),
    ],
)
def test_a_section_is_named_or_written_not_both(name: str, section: str, code: int) -> None:
    text = TASK + f"    {name}\n{section}:\n  x: {{}}\n"
    assert [problem.code for problem in task_problems(text)] == [code]


def test_a_reference_stands_once() -> None:
    text = TASK + "    route-rules: [r, r]\nroutes:\n  r: {schema-pattern: a, target-schema: b}\n"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [
        ("mysql-instances[0].route-rules[1]", 20032)
    ]


@pytest.mark.parametrize(
    ("section", "key", "code"), [("routes", "route-rules", 20045), ("filters", "filter-rules", 20037)]
)
def test_two_rules_of_one_pattern_contradict_each_other(section: str, key: str, code: int) -> None:
    body = "target-schema: t" if section == "routes" else "events: [all], action: Ignore"
    first, second = f"{{schema-pattern: A, {body}}}", f"{{schema-pattern: a, {body}}}"
    text = TASK + f"    {key}: [x, y]\n{section}:\n  x: {first}\n  y: {second}\n"
    assert [(problem.path, problem.code) for problem in task_problems(text)] == [(f"{section}.y", code)]
    assert task_problems(text + "case-sensitive: true\n") == ()


@pytest.mark.parametrize(
    ("gtid", "meta", "good"),
    [
        ("false", "{binlog-name: mysql-bin.000001, binlog-pos: 4}", True),
        ("false", "{binlog-gtid: 0-1-2}", False),
        ("true", "{binlog-gtid: 0-1-2}", True),
        ("true", "{binlog-name: mysql-bin.000001}", False),
    ],
)
def test_a_start_point_is_of_the_kind_its_source_follows(gtid: str, meta: str, good: bool) -> None:
    text = TASK.replace("task-mode: all", "task-mode: incremental") + f"    meta: {meta}\n"
    codes = [problem.code for problem in task_problems(text, {"mysql-01": source(SOURCE + f"enable-gtid: {gtid}\n")})]
    assert codes == ([] if good else [20011])


@pytest.mark.parametrize("option", ["-B shop", "-T shop.orders", "-f shop.*", r"-f /^shop\d*$/.`a` -f !*.log_[0-9]"])
@pytest.mark.parametrize("mode", ["full", "dump", "all", "incremental"])
def test_options_that_choose_tables_are_taken_in_every_mode(option: str, mode: str) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}")
    assert task_problems(text + f"    mydumper-config-name: m\nmydumpers: {{m: {{extra-args: '{option}'}}}}\n") == ()


def test_a_rule_that_dumpling_does_not_take_says_what_is_wrong_with_it() -> None:
    text = TASK + "    mydumper: {extra-args: '-f shop.a.b -f @no-such-file.txt'}\n"
    assert [str(problem).partition("extra-args: ")[2] for problem in task_problems(text)] == [
        "`-f shop.a.b` (`.` after the table) is not possible here; expected a rule such as `shop.*`, `!shop.log_*` or "
        "`shop./^log_[0-9]+$/` [20921]",
        "`-f @no-such-file.txt` (no-such-file.txt: No such file or directory) is not possible here; expected a file "
        "with a rule such as `shop.*` or `!shop.log_*` on each line [20921]",
    ]


@pytest.mark.parametrize("key", ["compact", "multiple-rows"])
def test_checked_foreign_keys_exclude_what_reorders_rows(key: str) -> None:
    text = (
        TASK.replace("  user: dm", "  user: dm\n  session: {FOREIGN_KEY_CHECKS: 1}") + f"    syncer: {{{key}: true}}\n"
    )
    assert [problem.code for problem in task_problems(text)] == [20070]


def test_a_key_of_another_section_is_not_known_here() -> None:
    (problem,) = task_problems(TASK + "worker-count: 4\n")
    assert problem.code == 20003
    assert problem.suggestion == "it belongs under `syncers` or under `validators`"
    (problem,) = task_problems(TASK + "enable-gtid: true\n")
    assert problem.suggestion == "it belongs in the source file"


def _with(line: str) -> str:
    key = line.split(":", 1)[0]
    kept: list[str] = []
    skipping = False
    for existing in TASK.splitlines():
        if not existing.startswith(" "):
            skipping = existing.startswith(f"{key}:")
        if not skipping:
            kept.append(existing)
    return "\n".join([*kept, line, ""])
