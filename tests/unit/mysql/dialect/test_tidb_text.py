"""A TiDB prints some literals with their backslashes as they are; its table is read as it was made all the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.dialect.tidb import escaped_table, escaped_type
from dm.mysql.schema.parse import parse_create_table
from dm.mysql.sql.context import SourceContext

CONTEXT = SourceContext("mysql", 80011, "d")
CONTROLS = {"\0": "\\0", "\n": "\\n", "\r": "\\r", "'": "''"}
# No backslash before what a TiDB prints of a control character.
TEXTS = st.text(st.sampled_from("\\'\"`,()aé \n")).filter(lambda text: not text.endswith(" ") and "\\\n" not in text)


def printed(text: str) -> str:
    """As OutputFormat of the parser prints it."""
    return f"'{''.join(CONTROLS.get(each, each) for each in text)}'"


@given(st.lists(TEXTS, min_size=1, unique=True), st.sampled_from(["enum", "set"]), TEXTS)
def test_members_and_comments_are_read_as_they_were_made(members: list[str], kind: str, comment: str) -> None:
    labels = ",".join(map(printed, members))
    text = (
        f"CREATE TABLE `t` (\n  `a``(` {kind}({labels}) DEFAULT 'x\\\\y''z' COMMENT 'enum(''a\\\\'')',\n"
        f"  `b` varchar(20) DEFAULT '\\\\'\n) ENGINE=InnoDB COMMENT='\\\\'\nPARTITION BY LIST COLUMNS(`b`)\n"
        f"(PARTITION `p0` VALUES IN ('q\\\\','r''s') COMMENT {printed(comment)},\n PARTITION `p1` VALUES IN ('z'))"
    )
    schema = parse_create_table(escaped_table(text), CONTEXT)
    assert schema.columns[0].members == tuple(members)
    assert schema.columns[0].default == "'x\\\\y''z'"
    assert schema.partitions == ("p0", "p1")
    assert schema.placing[1] == ("in", "'q\\\\'", "'r''s'")


@pytest.mark.parametrize(
    ("type_", "escaped"),
    [
        (r"enum('a\','b')", r"enum('a\\','b')"),
        (r"set('a\nb','c''d')", r"set('a\nb','c''d')"),
        ("varchar(20)", "varchar(20)"),
    ],
)
def test_types_alone(type_: str, escaped: str) -> None:
    assert escaped_type(type_) == escaped
