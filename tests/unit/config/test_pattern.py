"""Wildcards match like the trie they come from."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dm.config import read_source, read_task
from dm.config.pattern import PatternError, matcher, misreading, wildcard
from dm.ident import TableName
from dm.rules import TableRules
from dm.rules.block_allow import SYSTEM_SCHEMAS


def oracle(pattern: str, name: str) -> bool:
    """The same rules, one character at a time."""
    if not pattern:
        return not name
    if pattern == "*":
        return True
    if not name:
        return False
    if pattern[0] == "?":
        return oracle(pattern[1:], name[1:])
    end = pattern.find("]") if pattern[0] == "[" else -1
    if end == -1:
        return pattern[0] == name[0] and oracle(pattern[1:], name[1:])
    content = pattern[1:end]
    if content == "!":
        return name[0] == "!" and oracle(pattern[end + 1 :], name[1:])
    negated = content.startswith("!")
    content = content[1:] if negated else content
    inside = False
    while content:
        if len(content) > 2 and content[1] == "-":
            inside, content = inside or content[0] <= name[0] <= content[2], content[3:]
        else:
            inside, content = inside or content[0] == name[0], content[1:]
    return inside != negated and oracle(pattern[end + 1 :], name[1:])


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("shop", ["shop"], ["shop1", "sho", "Shop"]),
        ("shop*", ["shop", "shop_1"], ["sho"]),
        ("*", ["", "x"], []),
        ("t_?", ["t_1", "t_é"], ["t_", "t_12"]),
        ("t_[0-9]", ["t_0", "t_9"], ["t_a", "t_10"]),
        ("t_[!0-9]", ["t_a"], ["t_1", "t_"]),
        ("t_[0-35-9]", ["t_0", "t_3", "t_9"], ["t_4", "t_35"]),
        ("t[!]", ["t!"], ["ta"]),
        ("t[]", [], ["t", "t]"]),
        ("t[a", ["t[a"], ["ta"]),
        ("t.a", ["t.a"], ["txa"]),
        ("t+(a)", ["t+(a)"], ["tta"]),
        ("täble", ["täble"], ["table"]),
    ],
)
def test_the_forms_of_a_wildcard(pattern: str, matching: list[str], others: list[str]) -> None:
    match = matcher(pattern, case_sensitive=True)
    assert [name for name in matching if not match(name)] == []
    assert [name for name in others if match(name)] == []


@pytest.mark.parametrize("pattern", ["a*b", "*a", "**", "*?", "a*[b]"])
def test_a_star_stands_at_the_end(pattern: str) -> None:
    with pytest.raises(PatternError):
        wildcard(pattern)


@given(st.text("ab?[]!-^0", max_size=8), st.sampled_from(["", "*"]), st.text("ab[]!-^0", max_size=6))
def test_wildcards_agree_with_their_rules(pattern: str, star: str, name: str) -> None:
    match = matcher(pattern + star, case_sensitive=True)
    assert match(name) == oracle(pattern + star, name)


@given(st.text("aB?", max_size=5), st.text("Ab", max_size=5))
def test_without_case_both_sides_are_folded(pattern: str, name: str) -> None:
    assert matcher(pattern, case_sensitive=False)(name) == oracle(pattern.lower(), name.lower())


def test_a_tilde_starts_an_unanchored_regular_expression() -> None:
    match = matcher("~^shop_[0-9]+$|Archive", case_sensitive=False)
    assert [name for name in ("shop_12", "SHOP_1", "myarchive2", "shop_", "x") if match(name)] == [
        "shop_12",
        "SHOP_1",
        "myarchive2",
    ]
    assert matcher(r"~^\D+$", case_sensitive=False)("ABC"), "folding must not touch the expression's classes"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("0-63", "not for the numbers 0 to 63"),
        ("00-15", "not for the numbers 00 to 15"),
        ("63-0", "not for the numbers 63 to 0"),
        ("!0-63", "not for the numbers 0 to 63"),
        ("^0-9", "not to be in a set is written `!`"),
        ("1,2,3", "`,` is one of its characters"),
        ("10|20", "`|` is one of its characters"),
        ("foo,bar", "`,` is one of its characters"),
        ("\\d", "a backslash is one of its characters"),
        ("[:digit:", "each letter is itself"),
        ("z-a", "no character lies in `z-a`"),
        ("aa", "holds `a` twice"),
        ("2024", "holds `2` twice"),
        ("", "it holds nothing"),
    ],
)
def test_a_set_that_can_not_mean_what_it_looks_like_is_told_why(content: str, why: str) -> None:
    assert why in (misreading(content) or "")


@pytest.mark.parametrize(
    "content", ["a", "0-9", "a-zA-Z0-9_", "!0-9", "!", "a-", "-a", "0-35-9", "135", "!!", "^", "!^"]
)
def test_an_ordinary_set_is_left_alone(content: str) -> None:
    assert misreading(content) is None


# All that MySQL takes as a name: 64 characters of the BMP; NUL and surrogates are none.
names = st.text(st.characters(max_codepoint=0xFFFF, exclude_categories=["Cs"], exclude_characters="\0"), max_size=64)


@settings(max_examples=40)
@given(names.filter(bool), names.filter(bool))
def test_every_name_can_be_written(name: str, other: str) -> None:
    """With the characters that mean something in sets of their own, through YAML and its checks."""
    pattern = "".join(f"[{character}]" if character in "*?[~" else character for character in name)
    text = json.dumps(pattern)  # \\u escapes: YAML's printable characters are fewer than a name's
    content = (
        "name: t\ntask-mode: all\ntarget-database: {host: a}\nmysql-instances:\n- {source-id: s, block-allow-list: b,"
        " route-rules: [r], filter-rules: [f]}\n"
        f"block-allow-list: {{b: {{do-tables: [{{db-name: {text}, tbl-name: {text}}}]}}}}\n"
        f"routes: {{r: {{schema-pattern: {text}, table-pattern: {text}, target-schema: x}}}}\n"
        f"filters: {{f: {{schema-pattern: {text}, table-pattern: {text}, events: [insert], action: Ignore}}}}\n"
        "case-sensitive: true\n"
    )
    sources = {"s": read_source("source-id: s\nfrom: {host: a}\n")}
    rules = TableRules(read_task(content, sources).subtask("s"))
    for each in (name, other):
        table = TableName(each, each)
        assert rules.wanted(table) is (each == name and each.lower() not in SYSTEM_SCHEMAS)
        assert rules.route(table).schema == ("x" if each == name else each)
        assert rules.row_event(table, "insert") == ("ignore" if each == name else "do")
