"""Files as they are shown: the user's own text without its secrets."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import ReusedAnchorWarning, YAMLError

from dm.config.load import masked
from dm.config.secret import MASK

CANARY = "cAnArY7x"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("from:\n  password: secret # ours\n  port: 1\n", "from:\n  password: '******' # ours\n  port: 1\n"),
        ("from: {password: 'a, b', port: 1}\n", "from: {password: '******', port: 1}\n"),
        ('password: "a\\\n  b"\nport: 1\n', "password: '******'\nport: 1\n"),
        ("password: |\n  a\n  b\nport: 1\n", "password: '******'\nport: 1\n"),
        ("a: &x secret\npassword: *x\n", "a: &x '******'\npassword: *x\n"),
        ("base: &b {password: secret}\nfrom:\n  <<: *b\n", "base: &b {password: '******'}\nfrom:\n  <<: *b\n"),
        ("security:\n  ssl-key-bytes: [1, 2]\n", "security:\n  ssl-key-bytes: ['******', '******']\n"),
        ("conf:\n  spark.hadoop.fs.s3a.secret.key: x\n", "conf:\n  spark.hadoop.fs.s3a.secret.key: '******'\n"),
        ("secrets:\n  - name: x\n", "secrets:\n  - name: '******'\n"),
        ("password: ${DM_PASSWORD}\n", "password: ${DM_PASSWORD}\n"),
        ("password-file: /etc/dm/pw\n", "password-file: /etc/dm/pw\n"),
        ("password: ''\n", "password: ''\n"),
        ("\ufeffpassword: secret\r\nport: 1\r\n", "password: '******'\r\nport: 1\r\n"),
    ],
)
def test_secrets_are_masked_and_all_else_stays(text: str, shown: str) -> None:
    assert masked(text) == shown


def test_paths_are_written_in_full_where_the_file_goes_elsewhere() -> None:
    text = "relay-dir: relay\nfrom:\n  password-file: ../it's\n  security:\n    ssl-ca: /etc/ca.pem\n"
    assert masked(text, Path("/home/me")) == (
        "relay-dir: '/home/me/relay'\nfrom:\n  password-file: '/home/me/../it''s'\n"
        "  security:\n    ssl-ca: /etc/ca.pem\n"
    )


_WORDS = st.text(alphabet="ab:#'\"\\ {}[]\n&*!é0", max_size=6)


@example([{":&": ""}, {":&": ""}])
@given(st.recursive(_WORDS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_WORDS, inner, max_size=3)))
def test_no_secret_of_any_form_is_shown_and_nothing_else_changes(other: object) -> None:
    """The oracle is a YAML writer, which chooses the quotes; what it writes and can't read again says nothing."""
    stream = StringIO()
    tree = {"other": other, "from": {"password": f"{CANARY} {other!r}"}, "last": "x"}
    YAML(typ="safe").dump(tree, stream)
    try:
        assume(YAML(typ="safe").load(stream.getvalue()) == tree)
    except (YAMLError, ReusedAnchorWarning):  # such as the unquoted key `:&`, which it reads as an anchor's name
        assume(False)
    shown = masked(stream.getvalue())
    assert CANARY not in shown
    assert YAML(typ="safe").load(shown) == {"other": other, "from": {"password": MASK}, "last": "x"}
