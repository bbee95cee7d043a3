"""DM's advanced task file: what of it is taken, warned of, and refused by name with what to use instead."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.config import ConfigErrors, TaskConfig, read_source, read_task

ADVANCED = (Path(__file__).parent / "documented" / "advanced.yaml").read_text()
SOURCES = {name: read_source(f"source-id: {name}\nfrom: {{host: {name}}}\n") for name in ("mysql-01", "mysql-02")}


def changed(line: str, other: str) -> str:
    assert ADVANCED.count(line) >= 1, line
    return ADVANCED.replace(line, other, 1)


def loaded(text: str) -> TaskConfig:
    return read_task(text, SOURCES)


def test_every_key_of_it_is_taken_and_what_has_no_meaning_here_is_said() -> None:
    task = loaded(ADVANCED)
    assert {warning.code for warning in task.warnings} == {20909, 20940}
    (deprecated,) = (warning for warning in task.warnings if warning.code == 20940)
    for key in (
        "online-ddl-scheme",
        "max-allowed-packet",
        "on-duplicate",
        "max-retry",
        "enable-ansi-quotes",
    ):
        assert f"`{key}` (line" in deprecated.message
    first = task.subtask("mysql-01")
    assert (first.syncer.worker_count, first.syncer.batch, first.dumper.consistency) == (16, 100, "none")
    assert (len(first.routes), len(first.filters), len(first.expression_filters)) == (2, 2, 1)


ONE_PLACE = '    on-duplicate: "replace"\n'
STRICT = "strict-optimistic-shard-mode"
FIRST = "mysql-instances[0]"
REFUSED = [
    ('shard-mode: ""', 'shard-mode: "greedy"', "shard-mode", 20033),
    (f"{STRICT}: false", f"{STRICT}: true", STRICT, 20066),
    ("meta-schema:", "column-mappings: {a: {}}\nmeta-schema:", "column-mappings", 20064),
    ("task-mode: all", "task-mode: increment", "task-mode", 20020),
    ('timezone: "Asia/Shanghai"', "timezone: SYSTEM", "timezone", 20008),
    ('online-ddl-scheme: "gh-ost"', 'online-ddl-scheme: "ghost"', "online-ddl-scheme", 20007),
    ('collation_compatible: "loose"', 'collation_compatible: "tight"', "collation_compatible", 20052),
    ("ignore-checking-items: []", "ignore-checking-items: [all_of_it]", "ignore-checking-items[0]", 20001),
    ('["^_(.+)_(?:new|gho)$"]', '["^_.+_gho$"]', "shadow-table-rules[0]", 20048),
    ('import-mode: "logical"', 'import-mode: "physical"', "loaders.global.import-mode", 20053),
    ('import-mode: "logical"', 'import-mode: "import-into"', "loaders.global.import-mode", 20053),
    ('on-duplicate-logical: "replace"', 'on-duplicate-logical: "keep"', "loaders.global.on-duplicate-logical", 20054),
    (ONE_PLACE, '    on-duplicate-physical: "manual"\n', "loaders.global.on-duplicate-physical", 20907),
    (ONE_PLACE, '    sorting-dir-physical: "./sorted"\n', "loaders.global.sorting-dir-physical", 20907),
    (ONE_PLACE, '    disk-quota-physical: "10G"\n', "loaders.global.disk-quota-physical", 20907),
    (ONE_PLACE, '    checksum-physical: "off"\n', "loaders.global.checksum-physical", 20907),
    (ONE_PLACE, '    analyze: "off"\n', "loaders.global.analyze", 20907),
    (ONE_PLACE, "    range-concurrency: 16\n", "loaders.global.range-concurrency", 20907),
    (ONE_PLACE, '    compress-kv-pairs: "gzip"\n', "loaders.global.compress-kv-pairs", 20907),
    (ONE_PLACE, '    pd-addr: "192.0.2.1:2379"\n', "loaders.global.pd-addr", 20907),
    ('dir: "./dumped_data"', 'dir: "gcs://bucket/dump"', "loaders.global.dir", 20913),
    ("chunk-filesize: 64", "chunk-filesize: many", "mydumpers.global.chunk-filesize", 20047),
    ('"--consistency none"', '"--consistency snapshot"', "mydumpers.global.extra-args", 20921),
    ("mode: none", "mode: half", "validators.global.mode", 20055),
    ('safe-mode: false\n    safe-mode-duration: "60s"', 'safe-mode: true\n    safe-mode-duration: "0s"',
     "syncers.global.safe-mode-duration", 20061),
    ("queue-size: 1024", "quue-size: 1024", "syncers.global.quue-size", 20003),
    ('route-rules: ["whole", "schemas"]', 'route-rules: ["whole", "schema"]', f"{FIRST}.route-rules[1]", 20023),
    ('filter-rules: ["keep-tables", "rows"]', 'filter-rules: ["row"]', f"{FIRST}.filter-rules[0]", 20024),
    ('block-allow-list: "wanted"', 'block-allow-list: "want"', f"{FIRST}.block-allow-list", 20026),
    ('["even"]', '["odd"]', f"{FIRST}.expression-filters[0]", 20040),
    ('mydumper-config-name: "global"', 'mydumper-config-name: "x"', f"{FIRST}.mydumper-config-name", 20027),
    ('loader-config-name: "global"', 'loader-config-name: "x"', f"{FIRST}.loader-config-name", 20029),
    ('syncer-config-name: "global"', 'syncer-config-name: "x"', f"{FIRST}.syncer-config-name", 20030),
    ('validator-config-name: "global"', 'validator-config-name: "x"', f"{FIRST}.validator-config-name", 20056),
    ('source-id: "mysql-02"', 'source-id: "mysql-01"', "mysql-instances[1].source-id", 20014),
    ('source-id: "mysql-02"', 'source-id: "mysql-03"', "mysql-instances[1].source-id", 20031),
    ('"c % 2 = 0"', '"c % 2 ="', "expression-filter.even.insert-value-expr", 20041),
    ('    table: "p_01"\n', '    table: ""\n', "expression-filter.even.table", 20042),
    ('name: "payments"', 'name: ""', "name", 20004),
]  # fmt: skip


@pytest.mark.parametrize(("line", "other", "path", "code"), REFUSED)
def test_what_it_may_not_say_has_dms_code_or_says_what_to_use_instead(
    line: str, other: str, path: str, code: int
) -> None:
    with pytest.raises(ConfigErrors) as raised:
        loaded(changed(line, other))
    found = {problem.path: problem for problem in raised.value.problems}
    assert path in found, str(raised.value)
    assert found[path].code == code
    if code in (20907, 20913, 20053):
        assert found[path].suggestion or found[path].expected


def test_dms_source_file_is_taken_with_all_its_keys() -> None:
    text = """\
source-id: "mysql-replica-01"
enable: true
enable-gtid: false
auto-fix-gtid: false
enable-relay: false
relay-dir: "./relay_log"
relay-binlog-name: ""
relay-binlog-gtid: ""
server-id: 429523137
flavor: "mysql"
meta-dir: ""
charset: ""
case-sensitive: false
from:
  host: "127.0.0.1"
  port: 3306
  user: "root"
  password: ""
  max-allowed-packet: 67108864
  session: {sql_mode: ANSI_QUOTES}
purge: {interval: 3600, expires: 0, remain-space: 15}
checker: {check-enable: true, backoff-rollback: 5m0s, backoff-max: 5m0s, check-interval: 5s, backoff-min: 1s,
  backoff-jitter: true, backoff-factor: 2}
tracer: {}
filters:
  - schema-pattern: "pay_*"
    table-pattern: "p_*"
    events: ["truncate table"]
    action: Ignore
"""
    source = read_source(text)
    assert (source.source_id, source.server_id, source.endpoint.port) == ("mysql-replica-01", 429523137, 3306)
    assert {warning.code for warning in source.warnings} <= {20908, 20909}
