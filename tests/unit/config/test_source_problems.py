"""What can be wrong with a source file, each with its place."""

from __future__ import annotations

import pytest

from tests.unit.config.texts import SOURCE, source_problems

SOURCE_CASES = [
    ("source-id: ''\n", "source-id", 20005),
    (f"source-id: {'a' * 33}\n", "source-id", 20006),
    ("source-id: ../x\n", "source-id", 20914),
    ("source-id: .hidden\n", "source-id", 20914),
    ("source-id: a/b\n", "source-id", 20914),
    ('source-id: "a\\nb"\n', "source-id", 20914),
    ("enable-gtid: maybe\n", "enable-gtid", 20912),
    ("enable-gtid: 'true'\n", "enable-gtid", 20911),
    ("flavor: postgres\n", "flavor", 20912),
    ("server-id: -1\n", "server-id", 20912),
    ("server-id: 4294967296\n", "server-id", 20912),
    ("server-id: 1.5\n", "server-id", 20912),
    ("relay-binlog-name: ../mysql-bin.000001\n", "relay-binlog-name", 20912),
    ("relay-binlog-gtid: abc\n", "relay-binlog-gtid", 20920),
    ("checker: {backoff-max: 300}\n", "checker.backoff-max", 20912),
    ("checker: {backoff-max: 1ms}\n", "checker.backoff-max", 20043),
    ("checker: {backoff-max: 1s, backoff-min: 2s}\n", "checker.backoff-max", 20043),
    ("checker: yes\n", "checker", 20911),
    ("purge: [1]\n", "purge", 20911),
    ("purge: {interval: -1}\n", "purge.interval", 20912),
    ("filters: {a: b}\n", "filters", 20911),
    ("filters: [{schema-pattern: a, action: Do}]\n", "filters[0].events", 20037),
    ("filters: [{schema-pattern: a, events: [inserts], action: Do}]\n", "filters[0].events[0]", 20037),
    ("filters: [{schema-pattern: a, events: [insert], action: Drop}]\n", "filters[0].action", 20912),
    ("filters: [{schema-pattern: a, sql-pattern: ['('], action: Ignore}]\n", "filters[0].sql-pattern[0]", 20037),
    ("enable-relays: true\n", "enable-relays", 20003),
]


@pytest.mark.parametrize(("line", "path", "code"), SOURCE_CASES)
def test_a_bad_key_of_a_source_file_is_named(line: str, path: str, code: int) -> None:
    key = line.split(":", 1)[0]
    text = "".join(kept for kept in SOURCE.splitlines(keepends=True) if not kept.startswith(f"{key}:")) + line
    assert [(problem.path, problem.code) for problem in source_problems(text)] == [(path, code)]


FROM_CASES = [
    ("from: {port: 3306}", "from.host", 20906),
    ("from: {host: ''}", "from.host", 20912),
    ("from: {host: a, port: 0}", "from.port", 20912),
    ("from: {host: a, port: 65536}", "from.port", 20912),
    ("from: {host: a, port: x}", "from.port", 20912),
    ("from: {host: a, password: [x]}", "from.password", 20911),
    ("from: {host: a, password: '${NOT_SET}'}", "from.password", 20915),
    ("from: {host: a, password: x, password-file: y}", "from.password-file", 20910),
    ("from: {host: a, password-file: not-there}", "from.password-file", 20916),
    ("from: {host: a, password-file: .}", "from.password-file", 20916),
    ("from: {host: a, security: {ssl-ca: not-there}}", "from.security.ssl-ca", 20917),
    ("from: {host: a, security: {ssl-ca-bytes: x}}", "from.security.ssl-ca-bytes", 20941),
    ("from: {host: a, security: {ssl-key-base64: '??'}}", "from.security.ssl-key-base64", 20941),
    ("from: {host: a, security: {cert-allowed-cn: [x]}}", "from.security.ssl-ca", 20906),
    ("from: {host: a, password: '******'}", "from.password", 20942),
    ("from: {host: a, session: [x]}", "from.session", 20911),
    ("from: {host: a, pasword: x}", "from.pasword", 20003),
    ("from: root@localhost", "from", 20911),
    ("from:", "from", 20906),
]


@pytest.mark.parametrize(("line", "path", "code"), FROM_CASES)
def test_a_bad_login_is_named(line: str, path: str, code: int) -> None:
    problems = source_problems(f"source-id: a\n{line}\n")
    assert [(problem.path, problem.code) for problem in problems] == [(path, code)]
