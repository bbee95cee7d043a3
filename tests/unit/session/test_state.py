"""What a session is told when it begins."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dm.errors import DMError
from dm.session import state

GREETINGS = ("9.7.4", "5.7.44-log", "10.11.19-MariaDB", "5.5.5-10.2.44-MariaDB", "8.0.11-TiDB-v8.5.3")


@pytest.mark.parametrize("greeting", GREETINGS)
@pytest.mark.parametrize("purpose", ["reads", "writes"])
def test_the_users_block_does_not_reach_what_exactness_rests_on(greeting: str, purpose: state.Purpose) -> None:
    block = dict.fromkeys([*state.FIXED, "sql_mode"], "ANSI") | {
        "net_read_timeout": "7777",
        "tidb_txn_mode": "optimistic",
    }
    opening = state.opening(purpose, greeting, block)
    assert [text for text in opening.statements if "7777" in text] == ["SET SESSION net_read_timeout = 7777"]
    assert opening.values["net_read_timeout"] == "7777"
    assert not any("'ANSI'" in text or "optimistic" in text for text in opening.statements)
    assert "ANSI" not in opening.values["sql_mode"]


def test_a_tidb_gets_no_executable_comment_and_its_own_variables_only_there() -> None:
    block = {"tidb_mem_quota_query": "1"}
    assert "/*" not in "".join(state.opening("writes", "8.0.11-TiDB-v8.5.3", {}).statements)
    assert "mem_quota" in "".join(state.opening("writes", "8.0.11-TiDB-v8.5.3", block).statements)
    assert "mem_quota" not in "".join(state.opening("writes", "9.7.4", block).statements)
    assert state.later_asked("8.0.11-TiDB-v8.5.3") == ""


def test_what_is_no_name_of_a_variable_is_refused() -> None:
    with pytest.raises(DMError) as raised:
        state.opening("writes", "9.7.4", {"a = 1, b": "2"})
    assert raised.value.name == "session-variable-invalid"


MODES = (*sorted(state.OTHER_QUOTES), "PAD_CHAR_TO_FULL_LENGTH", "NO_ZERO_DATE", " strict_all_tables")


@given(st.lists(st.sampled_from(MODES)))
def test_no_mode_that_reads_otherwise_gets_through(modes: list[str]) -> None:
    found = state.sql_mode(",".join(modes)).split(",")
    assert not {*state.OTHER_QUOTES, "PAD_CHAR_TO_FULL_LENGTH"} & set(found)
    assert "NO_AUTO_VALUE_ON_ZERO" in found
    assert "STRICT" not in state.lenient(",".join(found))


def test_a_lenient_session_is_so_also_where_one_name_stands_for_strict_modes() -> None:
    # An ENUM's error value is refused under TRADITIONAL, which has both strict modes in it.
    assert state.lenient(state.sql_mode("traditional")).split(",") == [
        *("NO_ZERO_IN_DATE", "NO_ZERO_DATE", "ERROR_FOR_DIVISION_BY_ZERO", "NO_AUTO_VALUE_ON_ZERO")
    ]


def test_only_what_lies_outside_is_changed_later() -> None:
    assert state.to_change([1024, 0], {}) == {}
    assert state.to_change([0, 1], {}) == {"max_error_count": 64, "sql_generate_invisible_primary_key": 0}
    assert state.to_change([0, 1], {"sql_generate_invisible_primary_key": "1"}) == {"max_error_count": 64}
    assert state.to_change([64], {}) == {}  # a server that has no more of them
