"""The depth of a JSON document is that of its arrays and objects, whatever its strings hold."""

from __future__ import annotations

import json
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from dm.mysql.sql.json_literal import depth_of

JSON: TypeAlias = "bool | int | str | list[JSON] | dict[str, JSON] | None"
_DOCUMENTS = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('[]{}"\\a', max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text('[]{}"\\a', max_size=3), inner, max_size=3),
    max_leaves=20,
)


def _depth(document: JSON) -> int:
    if isinstance(document, list):
        return 1 + max(map(_depth, document), default=0)
    return 1 + max(map(_depth, document.values()), default=0) if isinstance(document, dict) else 0


@given(_DOCUMENTS)
def test_it_is_that_of_the_tree(document: JSON) -> None:
    assert depth_of(json.dumps(document).encode()) == _depth(document)
