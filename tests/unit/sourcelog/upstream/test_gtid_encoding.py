"""The binary form of GTID sets: like mysql-replication's where it has one, and readable by our own decoder."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st
from pymysqlreplication.gtid import GtidSet as LibrarySet

from dm.gtid import GtidSet, binary_form
from dm.mysql.binlog.cursor import ByteCursor
from dm.mysql.binlog.gtid_history import parse_previous_gtids
from dm.sourcelog.upstream.connection import identity_for

uuids = st.integers(0, 5).map(lambda number: str(uuid.uuid5(uuid.NAMESPACE_OID, str(number))))
intervals = st.tuples(st.integers(1, 500), st.integers(0, 50)).map(lambda pair: f"{pair[0]}-{pair[0] + pair[1]}")
plain = st.builds(lambda name, parts: f"{name}:{':'.join(parts)}", uuids, st.lists(intervals, min_size=1, max_size=4))
tagged = st.builds(lambda name, tag, part: f"{name}:{tag}:{part}", uuids, st.sampled_from(["a", "tag_1"]), intervals)


@given(st.lists(plain, max_size=5))
def test_a_plain_set_is_encoded_as_mysql_replication_does(parts: list[str]) -> None:
    gtid_set = GtidSet.parse(",".join(parts), "mysql")
    assert binary_form(gtid_set) == LibrarySet(str(gtid_set)).encoded()


@given(st.lists(plain | tagged, max_size=6))
def test_every_set_is_decoded_to_itself(parts: list[str]) -> None:
    gtid_set = GtidSet.parse(",".join(parts), "mysql")
    assert parse_previous_gtids(ByteCursor(binary_form(gtid_set))).gtid_set == gtid_set


@given(st.text(), st.text(), st.sets(st.integers(0, 4294967295), max_size=3))
def test_an_identity_is_stable_valid_and_avoids_what_is_taken(purpose: str, source: str, taken: set[int]) -> None:
    identity = identity_for(purpose, source, taken=taken)
    assert identity == identity_for(purpose, source, taken=taken)
    assert 0 < identity.server_id <= 4294967295
    assert identity.server_id not in taken
    assert identity_for(purpose, source, server_id=7).server_id == 7


def test_readers_of_one_source_have_different_identities() -> None:
    assert identity_for("relay", "s") != identity_for("task", "s")
    assert identity_for("relay", "s") != identity_for("relay", "t")
