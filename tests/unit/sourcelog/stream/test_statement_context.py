"""How a statement's text is read, from the bytes of the status variables that are logged with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.errors import DMError
from dm.mysql.binlog.query import Query, parse_session
from dm.mysql.dialect import Flavor
from dm.mysql.schema.parse import parse_create_table
from dm.sourcelog.stream.statement_context import query_context
from tests.unit.sourcelog.upstream.test_address import MARIADB, MYSQL

NAMES = {
    8: "latin1_swedish_ci",
    47: "latin1_bin",
    45: "utf8mb4_general_ci",
    2304: "utf8mb4_uca1400_ai_ci",
    2308: "utf8mb4_uca1400_nopad_ai_ci",
}
_CHARSET = b"\x04" + b"\x2d\x00" * 2 + b"\x08\x00"  # collation_server is latin1_swedish_ci
_FLAGS = b"\x00"  # Q_FLAGS2_CODE
STATEMENT = (
    "CREATE TABLE t (a CHAR(3), b CHAR(3) CHARSET latin1, c CHAR(3) COLLATE utf8mb4_bin, d CHAR(3) CHARSET utf8mb3)"
    " CHARSET utf8mb4"
)


def _used(*pairs: tuple[int, int]) -> bytes:
    """Q_CHARACTER_SET_COLLATIONS: a count, then pairs of numbers; there when a statement used it, be it empty.

    Charset_collation_map_st::to_binary (sql/charset_collations.h) and Query_log_event::write (sql/log_event_server.cc).
    """
    return b"\x83" + bytes([len(pairs)]) + b"".join(number.to_bytes(2, "little") for pair in pairs for number in pair)


def _query(status: bytes) -> Query:
    return Query("d", STATEMENT.encode(), parse_session(status), 1700000000, 0, 0, 0)


@pytest.mark.parametrize(
    ("status", "collations"),
    [
        (
            _used((45, 2308), (8, 47)),
            ["utf8mb4_uca1400_nopad_ai_ci", "latin1_bin", "utf8mb4_bin", "utf8mb3_general_ci"],
        ),
        (_used(), ["utf8mb4_general_ci", "latin1_swedish_ci", "utf8mb4_bin", "utf8mb3_general_ci"]),
        (b"", ["utf8mb4_uca1400_ai_ci", "latin1_swedish_ci", "utf8mb4_bin", "utf8mb3_uca1400_ai_ci"]),
    ],
    ids=["named", "empty", "not told"],
)
def test_a_character_set_has_the_collation_that_the_session_gives_it(status: bytes, collations: list[str]) -> None:
    context = query_context(replace(MARIADB, version=110802), _query(status + _CHARSET), NAMES)
    table = parse_create_table(STATEMENT, context)
    assert [column.collation for column in table.columns] == collations
    assert table.collation == collations[0]
    assert context.server_collation == "latin1_swedish_ci"


def test_a_collation_that_the_source_has_no_more_pauses() -> None:
    with pytest.raises(DMError, match="collation 2309, which the source does not have now"):
        query_context(replace(MARIADB, version=110802), _query(_used((45, 2309))), NAMES)


def test_what_the_server_s_collation_is_called_is_the_source_s_word() -> None:
    assert query_context(MYSQL, _query(b"\x04" + b"\x2d\x00" * 3), NAMES).server_collation == "utf8mb4_general_ci"
    assert query_context(MYSQL, _query(b"\x04" + b"\x2d\x00" * 2 + b"\xff\x01"), NAMES).server_collation is None
    assert query_context(MYSQL, _query(b""), NAMES).server_collation is None


@pytest.mark.parametrize(
    ("flavor", "version", "status", "explicit"),
    [
        ("mariadb", 100611, b"", False),
        ("mariadb", 100611, _FLAGS + (1 << 24).to_bytes(4, "little"), False),
        ("mariadb", 101000, _FLAGS + bytes(4), False),
        ("mariadb", 101000, _FLAGS + (1 << 24).to_bytes(4, "little"), True),
        ("mysql", 50651, b"", False),
        ("mysql", 50744, b"", True),
        ("mysql", 50744, b"\x10\x00", False),
    ],
)
def test_what_a_timestamp_is_by_default_is_told_by_the_event_or_by_the_server(
    flavor: Flavor, version: int, status: bytes, explicit: bool
) -> None:
    facts = replace(MYSQL if flavor == "mysql" else MARIADB, version=version, explicit_timestamps=False)
    assert query_context(facts, _query(status), NAMES).explicit_defaults_for_timestamp is explicit


@pytest.mark.parametrize(("flavor", "version"), [("mariadb", 100123), ("mariadb", 100908), ("mysql", 50624)])
@pytest.mark.parametrize("explicit", [True, False])
def test_older_servers_have_one_for_all_sessions(flavor: Flavor, version: int, explicit: bool) -> None:
    facts = replace(MYSQL if flavor == "mysql" else MARIADB, version=version, explicit_timestamps=explicit)
    flags = _FLAGS + (0 if explicit else 1 << 24).to_bytes(4, "little")  # of something else there
    assert query_context(facts, _query(flags), NAMES).explicit_defaults_for_timestamp is explicit
