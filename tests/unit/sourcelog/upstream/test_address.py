"""When a source goes to its other address, and when a server that lacks something may be waited for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from dm.config.endpoint import Endpoint
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.sourcelog.upstream.facts import ServerFacts
from dm.sourcelog.upstream.lineage import SourceAddresses, lost_for_ever

FIRST, SECOND = Endpoint(host="first"), Endpoint(host="second")
UUIDS = ("3e11fa47-71ca-11e1-9e33-c80aa9429562", "4e11fa47-71ca-11e1-9e33-c80aa9429562")
MYSQL = ServerFacts(
    flavor="mysql",
    version_text="9.7.4",
    version=90704,
    server_uuid=UUIDS[1],
    server_id=2,
    log_bin=True,
    binlog_format="ROW",
    binlog_row_image="FULL",
    binlog_row_metadata="FULL",
    binlog_checksum="CRC32",
    gtid_mode=True,
    gtid_ordered=True,
    lower_case_table_names=0,
    time_zone="SYSTEM",
    system_time_zone="UTC",
    sql_mode="",
    utf8_is_utf8mb3=True,
    explicit_timestamps=True,
    logs_cascades=True,
)
MARIADB = replace(MYSQL, flavor="mariadb", server_uuid="0-2")


def refused(name: str = "connection-failed") -> DMError:
    return DMError(name, role="upstream", address="x", user="u", what="w", path="/")


def test_nobody_there_means_the_other_address_at_once_and_back() -> None:
    addresses = SourceAddresses(FIRST, SECOND)
    assert (addresses.current, addresses.other, addresses.on_standby) == (FIRST, SECOND, False)
    addresses.failed(refused())
    assert (addresses.current, addresses.other, addresses.on_standby) == (SECOND, FIRST, True)
    addresses.failed(refused())
    assert addresses.current is FIRST


def test_a_broken_connection_is_opened_again_where_it_was() -> None:
    addresses = SourceAddresses(FIRST, SECOND)
    for _ in range(10):
        addresses.failed(refused("connection-lost"))
        addresses.failed(refused("connection-lost"))
        assert addresses.current is FIRST
        addresses.served()
    for _ in range(3):
        addresses.failed(refused("connection-lost"))
    assert addresses.current is SECOND


@pytest.mark.parametrize("name", ["relay-storage-failed", "access-denied"])
def test_what_is_not_about_the_address_changes_nothing(name: str) -> None:
    addresses = SourceAddresses(FIRST, SECOND)
    for _ in range(5):
        addresses.failed(refused(name))
    assert addresses.current is FIRST


def test_one_address_stays() -> None:
    addresses = SourceAddresses(FIRST)
    addresses.failed(refused())
    assert (addresses.current, addresses.other, addresses.on_standby) == (FIRST, None, False)


@pytest.mark.parametrize(
    ("facts", "ours", "theirs", "lost"),
    [
        (MYSQL, f"{UUIDS[0]}:1-9", f"{UUIDS[0]}:1-7", False),
        (MYSQL, f"{UUIDS[0]}:1-9", f"{UUIDS[0]}:1-7,{UUIDS[1]}:1", True),
        (MYSQL, f"{UUIDS[0]}:1-9,{UUIDS[1]}:1-3", f"{UUIDS[0]}:1-8,{UUIDS[1]}:1-3", False),
        (MYSQL, f"{UUIDS[0]}:1-9,{UUIDS[1]}:1-3", f"{UUIDS[0]}:1-9,{UUIDS[1]}:1-2", True),
        (MARIADB, "0-1-9", "0-1-7", False),
        (MARIADB, "0-1-9", "0-2-8", False),
        (MARIADB, "0-1-9,1-1-5", "0-1-9,1-1-4", False),
        (MARIADB, "0-2-9", "0-2-7", True),
    ],
)
def test_a_server_that_has_written_by_itself_or_lost_its_own_never_catches_up(
    facts: ServerFacts, ours: str, theirs: str, lost: bool
) -> None:
    read, has = GtidSet.parse(ours), GtidSet.parse(theirs)
    assert lost_for_ever(facts, read - has, has - read) is lost
