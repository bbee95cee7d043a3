"""What DM prints, and what its files write for "the default", is taken; what it hides is said to be hidden."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest

from dm.config import ConfigErrors, TaskConfig, load_task, read_source, read_task
from dm.config.secret import PUBLIC_KEY, SecretKey, encrypted
from dm.config.task import SHADOW_TABLES, TRASH_TABLES
from dm.dumpfiles.chunk_plan import rows_per_chunk
from dm.errors import DMError
from tests.unit.config.texts import SOURCE, TASK, source, source_problems, task, task_problems

PRINTED = Path(__file__).parent / "documented" / "printed-task.yaml"
SOURCES = {name: read_source(f"source-id: {name}\nfrom: {{host: {name}}}\n") for name in ("mysql-01", "mysql-02")}
KEY = "0123456789abcdef" * 4
# Written by DM's code with the key that it had in its sources until 8.0: "123456".
PUBLIC = "/Q7B9DizNLLTTfiZHv9WoEAKamfpIUs="
PRINTED_SOURCE = """\
enable: true
enable-gtid: false
auto-fix-gtid: false
relay-dir: /var/lib/dm/relay
meta-dir: ""
flavor: mysql
charset: ""
enable-relay: false
relay-binlog-name: ""
relay-binlog-gtid: ""
source-id: mysql-01
from:
  host: db1.example
  port: 3306
  user: dm
  password: plain
  max-allowed-packet: null
  session: {}
  security: null
purge:
  interval: 3600
  expires: 0
  remain-space: 15
checker:
  check-enable: true
  backoff-rollback: 5m0s
  backoff-max: 5m0s
  check-interval: 5s
  backoff-min: 1s
  backoff-jitter: true
  backoff-factor: 2
server-id: 123456
tracer: {}
case-sensitive: false
filters: []
"""


def test_a_printed_task_is_taken_with_one_line_for_its_deprecated_keys() -> None:
    task = load_task(PRINTED, SOURCES, environ={})
    assert [(warning.code, warning.line) for warning in task.warnings] == [(20940, 10), (20944, 84)]
    deprecated, event = task.warnings
    assert "`heartbeat-update-interval` (line 10), `heartbeat-report-interval` (line 11)" in str(deprecated)
    assert "there is no event 'truncate'" in str(event)
    assert "did you mean `truncate table`?" in str(event)


def test_a_printed_task_means_what_dm_means() -> None:
    subtask = load_task(PRINTED, SOURCES, environ={}).subtask("mysql-01")
    assert (subtask.dumper.chunk_filesize, subtask.dumper.statement_size, subtask.dumper.rows) == (
        0,
        1_000_000,
        200_000,
    )
    assert (subtask.shadow_table_rules, subtask.trash_table_rules) == (SHADOW_TABLES, TRASH_TABLES)
    assert subtask.filters[0].events == ("drop table",)
    assert (subtask.syncer.safe_mode_duration, subtask.loader.dir) == (60.0, "./dumped_data")


def test_a_printed_source_needs_no_warning() -> None:
    assert source(PRINTED_SOURCE).warnings == ()


def test_a_chunk_without_a_limit_of_bytes_has_its_rows() -> None:
    assert rows_per_chunk(200_000, 0, 50_000) == 200_000
    assert rows_per_chunk(200_000, 64 << 20, 50_000) < 200_000


@pytest.mark.parametrize(
    ("line", "key"),
    [
        ("    mydumper: {statement-size: 0, rows: 0, threads: 0, chunk-filesize: ''}", "dumper"),
        ("    loader: {pool-size: 0, import-mode: '', on-duplicate-logical: '', dir: ''}", "loader"),
        (
            "    syncer: {worker-count: 0, queue-size: 0, checkpoint-flush-interval: 0, safe-mode-duration: ''}",
            "syncer",
        ),
    ],
)
def test_go_s_zero_values_are_the_defaults(line: str, key: str) -> None:
    subtask = task(f"{TASK}{line}\n").subtask("mysql-01")
    assert getattr(subtask, key) == getattr(task().subtask("mysql-01"), key)


@pytest.mark.parametrize(
    "line",
    [
        "    loader: {pd-addr: '', compress-kv-pairs: '', range-concurrency: 0, analyze: Optional, disk-quota: 0}",
        "    column-mapping-rules: []",
        "column-mappings: {}",
        "black-white-list: {}",
        "    syncer: {max-retry: 0, meta-file: '', disable-detect: false}",
        "    meta: {binlog-name: '', binlog-pos: 0, binlog-gtid: ''}",
        "    meta: {binlog-name: '', binlog-pos: 4}",
    ],
)
def test_values_that_ask_for_nothing_are_taken_in_silence(line: str) -> None:
    assert task(f"{TASK}{line}\n").warnings == ()


@pytest.mark.parametrize("mode", ["all", "full", "dump"])
def test_a_start_that_a_mode_does_not_use_is_not_looked_at(mode: str) -> None:
    text = TASK.replace("task-mode: all", f"task-mode: {mode}")
    assert task(text + "    meta: {binlog-name: '', binlog-pos: 0}\n").warnings == ()
    assert [one.path for one in task(text + "    meta: {binlog-name: the-first}\n").warnings] == [
        "mysql-instances[0].meta"
    ]


@pytest.mark.parametrize("meta", ["binlog-name: '', binlog-pos: 0", "binlog-name: the-first"])
def test_a_start_that_a_mode_uses_is(meta: str) -> None:
    text = TASK.replace("task-mode: all", "task-mode: incremental")
    (problem,) = task_problems(f"{text}    meta: {{{meta}}}\n")
    assert problem.code in (20011, 20912)


def test_keys_that_dm_had_for_a_while_are_deprecated() -> None:
    more = (
        "    continuous-validator-config-name: v\nvalidators: {v: {meta-flush-interval: 1ns}}\ntidb: {backend: tidb}\n"
    )
    (warning,) = task(TASK + more).warnings
    assert warning.code == 20940
    assert "`continuous-validator-config-name` (line 10: use `validator-config-name`)" in str(warning)
    assert "`tidb` (line 12)" in str(warning)


def test_a_gtid_set_may_say_that_nothing_is_there_yet() -> None:
    uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
    meta = f"    meta: {{binlog-gtid: '{uuid}:0'}}\n"
    text = TASK.replace("task-mode: all", "task-mode: incremental") + meta
    assert task(text, {"mysql-01": source(SOURCE + "enable-gtid: true\n")}).mysql_instances[0].meta is not None
    (problem,) = task_problems(text.replace(":0'", ":0-5'"), {"mysql-01": source(SOURCE + "enable-gtid: true\n")})
    assert problem.code == 20920


def test_options_that_dm_does_not_give_to_dumpling_are_a_warning() -> None:
    text = TASK + "    mydumper: {extra-args: 'shop --consistncy none -t 7'}\n"
    read = task(text)
    assert [(warning.line, warning.code) for warning in read.warnings] == [(10, 20945), (10, 20945)]
    assert "did you mean `consistency`?" in str(read.warnings[1])
    (misspelt,) = task(TASK + "    mydumper: {extra-args: --tables-lst shop.orders}\n").warnings
    assert "did you mean `tables-list`?" in str(misspelt)
    assert read.subtask("mysql-01").dumper.threads == 7


@pytest.mark.parametrize(
    ("options", "effective"),
    [
        (("-t 7", "--threads 7", "--threads=7", "-t7"), True),
        (("-F 8M", "--filesize 8M"), True),
        (("-s 9", "--statement-size 9"), True),
        (("-r 9", "--rows 9"), True),
        (("--where a=1", "--consistency flush", "--no-locks"), True),
        (("-B shop", "-Bshop", "--database shop", "--database=shop"), True),
        (("-T shop.orders", "--tables-list shop.orders,shop.items"), True),
        (("-f shop.*", "--filter shop.*", "--filter !shop.log"), True),
        (("--consistncy none", "--tables-lists shop.orders", "--databases shop", "--filetype csv", "--gzip"), False),
    ],
)
def test_exactly_the_options_without_effect_are_said_to_have_none(options: tuple[str, ...], effective: bool) -> None:
    nothing = task().subtask("mysql-01").dumper
    for option in options:
        read = task(TASK + f"    mydumper: {{extra-args: '{option}'}}\n")
        warned = [warning.code for warning in read.warnings]
        assert (option, read.subtask("mysql-01").dumper != nothing, warned) == (
            option,
            effective,
            [] if effective else [20945],
        )


def test_only_unknown_events_in_a_rule_that_would_let_nothing_pass_are_an_error() -> None:
    rule = "filters: [{{schema-pattern: a, events: [truncate], action: {}}}]\n"
    assert [problem.code for problem in source_problems(SOURCE + rule.format("Do"))] == [20037]
    (ignoring,) = source(SOURCE + rule.format("Ignore")).filters
    assert ignoring.events == ("none",)


def test_problems_of_a_second_kind_come_with_the_first() -> None:
    text = TASK + (
        "strict-optimistic-shard-mode: true\nmeta-schem: x\nroutes:\n  r: {schema-pattern: 3}\n"
        "loaders:\n  l: {import-mode: physical, pool-size: many}\n"
    )
    assert [(problem.line, problem.code) for problem in task_problems(text)] == [
        (10, 20066),
        (11, 20003),
        (13, 20038),
        (13, 20906),
        (15, 20038),
        (15, 20053),
        (15, 20912),
    ]


# ---- what DM hides ----


def test_a_mask_is_no_password() -> None:
    (problem,) = task_problems(TASK.replace("password: secret", "password: '******'"))
    assert (problem.line, problem.path, problem.code) == (7, "target-database.password", 20942)
    assert "by `password-file`" in str(problem)


def key_file(tmp_path: Path, text: str = KEY, mode: int = 0o600) -> Path:
    path = tmp_path / "secret-key"
    path.write_text(text)
    path.chmod(mode)
    return path


def with_password(password: str, key: Path | None) -> TaskConfig:
    text = TASK.replace("password: secret", f"password: {password}")
    return read_task(text, {"mysql-01": source()}, file="task.yaml", environ={}, key_file=key)


def test_a_password_that_dm_has_encrypted_is_read_with_its_key(tmp_path: Path) -> None:
    key = key_file(tmp_path, f"{KEY}\n")
    for plain in ("secret", "p@ss", "пароль", "x" * 100):
        written = SecretKey.read(key).encrypt(plain)
        assert with_password(written, key).target_database.password.get_secret_value() == plain
    assert SecretKey.read(key).encrypt("secret") != SecretKey.read(key).encrypt("secret")


def test_a_password_of_dm_itself_is_read_with_the_key_that_was_public() -> None:
    read = with_password(PUBLIC, None)
    assert read.target_database.password.get_secret_value() == "123456"
    assert [(warning.line, warning.code) for warning in read.warnings] == [(7, 20943)]


def test_the_cipher_is_that_of_the_standard() -> None:
    # NIST SP 800-38A, F.3.17 CFB128-AES256.Encrypt, the first block.
    key = bytes.fromhex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    start = bytes(range(16))
    block = bytes.fromhex("dc7e84bfda79164b7ecd8486985d3860")
    plain = bytes.fromhex("6bc1bee22e409f96e93d7e117393172a")
    assert SecretKey(key)._applied(start, block, encrypting=False) == plain
    assert SecretKey(key)._applied(start, plain, encrypting=True) == block


@pytest.mark.parametrize(
    ("text", "mode", "said"),
    [
        (KEY, 0o644, "other users of this machine can read it"),
        ("too short", 0o600, "64 hexadecimal digits"),
        ("f" * 64, 0o600, "is another one"),
    ],
)
def test_a_key_that_does_not_open_it_is_said(tmp_path: Path, text: str, mode: int, said: str) -> None:
    written = SecretKey(bytes.fromhex(KEY)).encrypt("a longer secret than chance would spell")
    with pytest.raises(ConfigErrors) as raised:
        with_password(written, key_file(tmp_path, text, mode))
    (problem,) = raised.value.problems
    assert (problem.line, problem.code) == (7, 20010)
    assert said in str(problem)
    assert written not in str(problem)


def test_without_a_key_file_the_way_there_is_said(tmp_path: Path) -> None:
    written = SecretKey(bytes.fromhex(KEY)).encrypt("a longer secret than chance would spell")
    with pytest.raises(ConfigErrors, match=r"there is no key file.*\$DM_HOME/secret-key.*`password-file`"):
        with_password(written, tmp_path / "secret-key")


@pytest.mark.parametrize("text", ["secret", "", "c2VjcmV0", base64.b64encode(b"x" * 40).decode(), "aGFsbG8=@"])
def test_other_texts_are_passwords(text: str) -> None:
    assert encrypted(text) is None
    assert encrypted(PUBLIC) is not None
    assert len(PUBLIC_KEY) == 32


def test_a_key_file_that_is_not_there_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(DMError, match="No such file") as raised:
        SecretKey.read(tmp_path / "none")
    assert raised.value.code == 20067
