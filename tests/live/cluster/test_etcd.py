"""The client, the mirror, the lease and claims on Debian's etcd."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from dm.clock import SystemClock
from dm.cluster.etcd import Etcd, KeyChange, KeysFound
from dm.cluster.etcd_access import EtcdAccess
from dm.cluster.lease import Lease
from dm.cluster.members import ClusterMember, ClusterRecord, Members
from dm.cluster.membership import Membership
from dm.cluster.mirror import CLUSTER_KEY, Mirror
from dm.cluster.ownership import SOURCE, Ownership
from dm.errors import DMError
from dm.worker.holdings import Holdings
from dm.worker.loop import Loop
from dm.worker.supervisor import Supervisor
from dm.worker.taking_up import TakingUp
from tests.testbed.certificates import Authority
from tests.testbed.etcd import PASSWORD, EtcdServer
from tests.testbed.fake_clock import FakeClock
from tests.testbed.sync import wait_until

pytestmark = pytest.mark.live

CLOCK = SystemClock()


class Host:
    """What of a member talks to etcd; its lease is renewed by the test."""

    def __init__(self, server: EtcdServer, prefix: str, name: str, *, home: str = "", seconds: int = 60) -> None:
        self.etcd = server.client()
        self.clock = FakeClock()
        self.mirror = Mirror(self.etcd, prefix, CLOCK)
        self.lease = Lease(self.etcd, self.clock, lambda: None, seconds)
        self.lease._take()
        self.mirror.begin()
        self.ownership = Ownership(self.mirror, self.lease, name)
        self.members = Members(
            self.mirror, self.lease, ClusterMember(name, f"{name}:8262", home or f"home of {name}", "1.0.0")
        )

    def end(self) -> None:
        self.mirror.end()
        self.etcd.close()


@pytest.fixture
def prefix(etcd: EtcdServer, request: pytest.FixtureRequest) -> str:
    """A cluster of the test's own."""
    name = f"{request.node.name}/"
    client = etcd.client()
    client.write({}, [KeyChange(f"{name}{CLUSTER_KEY}", ClusterRecord.new().text())])
    client.close()
    return name


@pytest.fixture
def hosts(etcd: EtcdServer, prefix: str) -> Iterator[tuple[Host, Host]]:
    both = Host(etcd, prefix, "a"), Host(etcd, prefix, "b")
    yield both
    for each in both:
        each.end()


def test_a_transaction_is_made_where_all_is_as_expected(etcd: EtcdServer) -> None:
    client = etcd.client()
    first = client.write({"txn/a": 0}, [KeyChange("txn/a", "1"), KeyChange("txn/b", "ü")])
    assert first is not None
    assert client.write({"txn/a": 0}, [KeyChange("txn/b", "2")]) is None
    assert {key: entry.value for key, entry in client.read("txn/").entries.items()} == {"txn/a": "1", "txn/b": "ü"}
    assert client.write({"txn/a": first}, [KeyChange("txn/a", None)]) is not None
    assert [*client.read("txn/").entries] == ["txn/b"]
    client.close()


def test_a_large_folder_is_read_in_pages_of_one_revision(etcd: EtcdServer) -> None:
    client = etcd.client()
    for start in range(0, 1100, 100):
        client.write({}, [KeyChange(f"large/{number:05}", "x" * 50) for number in range(start, start + 100)])
    assert len(client.read("large/").entries) == 1100
    client.close()


def test_a_claim_is_one_members_until_it_is_released(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    assert a.ownership.claim(SOURCE, "s")
    assert not b.ownership.claim(SOURCE, "s")
    assert a.ownership.mine(SOURCE, "s")
    assert not b.ownership.mine(SOURCE, "s")
    assert b.ownership.owner(SOURCE, "s") == "a"
    b.ownership.release(SOURCE, "s")  # which is not its own
    assert a.ownership.claim(SOURCE, "s")
    a.ownership.release(SOURCE, "s")
    wait_until(lambda: b.ownership.owner(SOURCE, "s") is None, "the release is told")
    assert b.ownership.claim(SOURCE, "s")


def test_of_many_claims_at_once_one_succeeds(hosts: tuple[Host, Host]) -> None:
    begin, made = threading.Barrier(8), []

    def claim(host: Host) -> None:
        begin.wait(60)
        made.append((host.members.me.name, host.ownership.claim(SOURCE, "s")))

    # Of one member several threads may succeed: the source is its own then.
    threads = [threading.Thread(target=claim, args=(hosts[number % 2],)) for number in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len({name for name, done in made if done}) == 1


def test_a_claim_goes_with_the_lease_and_nothing_is_mine_when_the_lease_may_be_over(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    assert a.ownership.claim(SOURCE, "s")
    a.clock.now += 61
    assert not a.ownership.mine(SOURCE, "s")  # before etcd has said so
    assert a.lease.renew_once()
    assert a.ownership.mine(SOURCE, "s")
    b.etcd.revoke(a.lease.number)
    wait_until(lambda: a.ownership.owner(SOURCE, "s") is None, "the end of the lease is told")
    wait_until(lambda: b.ownership.owner(SOURCE, "s") is None, "the other member has heard it, too")
    assert not a.ownership.mine(SOURCE, "s")
    before = a.lease.number
    assert a.lease.renew_once()
    assert a.lease.number != before
    assert b.ownership.claim(SOURCE, "s")
    assert not a.ownership.claim(SOURCE, "s")


def test_a_lease_that_was_over_for_this_member_alone_is_told_when_it_lives_again(hosts: tuple[Host, Host]) -> None:
    a, _ = hosts
    told: list[bool] = []
    a.lease._told = lambda: told.append(a.lease.alive)
    a.clock.now += 61  # as of a process that was frozen; etcd, by its own clock, has the lease still
    assert a.lease.renew_once()
    assert told == [True]
    assert a.lease.renew_once()
    assert told == [True]


def test_a_member_that_is_back_binds_its_claims_to_the_new_lease(etcd: EtcdServer, prefix: str) -> None:
    killed = Host(etcd, prefix, "a")
    killed.members.join()
    assert killed.ownership.claim(SOURCE, "s")
    back = Host(etcd, prefix, "a")
    back.members.join()
    assert back.ownership.claim(SOURCE, "s")
    back.etcd.revoke(killed.lease.number)
    assert killed.mirror.write({}, [KeyChange("after", "it")])
    wait_until(lambda: back.mirror.get("after") is not None, "all is told up to here")
    assert back.ownership.mine(SOURCE, "s")
    assert back.members.joined
    killed.end()
    back.end()


def test_a_name_is_one_homes(etcd: EtcdServer, prefix: str) -> None:
    one, other = Host(etcd, prefix, "a"), Host(etcd, prefix, "a", home="another")
    one.members.join()
    with pytest.raises(DMError, match="a member with the name a lives at a:8262"):
        other.members.join()
    one.etcd.revoke(one.lease.number)
    wait_until(lambda: not other.members.living(), "the end is told")
    other.members.join()
    assert other.members.joined
    one.end()
    other.end()


def test_members_have_the_same_formats(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.members.join()
    newer = ClusterMember("b", "b:8262", "home of b", "1.1.0", formats={**a.members.me.formats, "the registry": 99})
    b.members = Members(b.mirror, b.lease, newer)
    wait_until(lambda: "a" in b.members.living(), "the member is told")
    with pytest.raises(DMError, match=r"member a \(version 1.0.0\) stores in other formats: the registry: 1 there, 99"):
        b.members.join()


def test_an_older_program_is_refused_when_newer_members_rest(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    older = a.members.me.formats
    a.members.join()
    a.etcd.revoke(a.lease.number)
    wait_until(lambda: not b.members.living(), "the end is told")
    newer = ClusterMember("b", "b:8262", "home of b", "1.1.0", formats={**older, "the registry": 99})
    b.members = Members(b.mirror, b.lease, newer)
    b.members.join()  # an upgrade
    b.etcd.revoke(b.lease.number)
    a.lease._take()
    wait_until(lambda: a.mirror.revision("known/b") > 0 and not a.members.living(), "the end is told")
    with pytest.raises(DMError, match=r"member b \(version 1.1.0\) stores in other formats: the registry: 99 there"):
        a.members.join()
    assert not a.members.joined


def test_of_members_that_join_at_once_each_sees_the_other(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    write = a.mirror.write

    def late(expected: Mapping[str, int], changes: Sequence[KeyChange]) -> int:
        if not b.members.joined:
            b.members.join()
        return write(expected, changes)

    a.mirror.write = late  # type: ignore[method-assign]
    a.members.join()
    assert sorted(a.members.living()) == ["a", "b"]
    b.etcd.revoke(b.lease.number)
    wait_until(lambda: [*a.members.living()] == ["a"], "the end is told")
    b.lease._take()
    newer = ClusterMember("b", "b:8262", "home of b", "1.1.0", formats={**a.members.me.formats, "the registry": 99})
    a.etcd.revoke(a.lease.number)
    a.lease._take()
    wait_until(lambda: not a.members.living() and not b.members.living(), "the end is told")
    b.members = Members(b.mirror, b.lease, newer)
    with pytest.raises(DMError, match="member b"):
        a.members.join()


def test_only_a_member_that_is_gone_is_struck_out(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    a.members.join()
    wait_until(lambda: "a" in b.members.living(), "the member is told")
    with pytest.raises(DMError, match="member a is online"):
        b.members.strike_out("a")
    b.etcd.revoke(a.lease.number)
    wait_until(lambda: not b.members.living(), "the end is told")
    assert [*b.members.known()] == ["a"]
    b.members.strike_out("a")
    assert not b.members.known()
    with pytest.raises(DMError, match="there is no member a"):
        b.members.strike_out("a")


def test_an_empty_wish_ends_the_one_of_before(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    membership = cast(Membership, SimpleNamespace(mirror=a.mirror))
    holdings = Holdings(membership, cast(TakingUp, None), cast(Loop, None), cast(Supervisor, None), CLOCK)
    holdings.wish("s", "b")
    assert holdings.wishes() == {"s": "b"}
    holdings.wish("s", "")
    assert holdings.wishes() == {}
    assert b.etcd.read(f"{a.mirror._prefix}wish/").entries == {}
    sent = a.etcd.requests
    holdings.wish("s", "")  # there is none
    assert a.etcd.requests == sent
    holdings.end()  # which has not begun


def test_an_etcd_that_is_gone_is_said_at_once_and_comes_back(own_etcd: EtcdServer) -> None:
    client = own_etcd.client()
    client.write({}, [KeyChange(f"p/{CLUSTER_KEY}", "x")])
    host = Host(own_etcd, "p/", "a", seconds=600)
    assert host.ownership.claim(SOURCE, "s")
    own_etcd.kill()
    assert not host.lease.renew_once()
    sent = host.etcd.requests
    with pytest.raises(DMError, match="etcd can't be reached"):
        host.ownership.claim(SOURCE, "t")
    assert host.ownership.mine(SOURCE, "s")  # nobody can take it before the lease is over
    assert host.ownership.owner(SOURCE, "s") == "a"
    own_etcd.start()
    assert host.lease.renew_once()
    assert host.etcd.requests > sent
    assert host.ownership.claim(SOURCE, "t")
    client.write({}, [KeyChange("p/told", "again")])
    wait_until(lambda: host.mirror.get("told") is not None, "the watch goes on")
    assert not host.mirror.lost
    host.end()
    client.close()


def test_an_etcd_that_lost_its_data_takes_no_claim(own_etcd: EtcdServer) -> None:
    client = own_etcd.client()
    client.write({}, [KeyChange(f"p/{CLUSTER_KEY}", "x")])
    host = Host(own_etcd, "p/", "a")
    assert host.ownership.claim(SOURCE, "s")
    own_etcd.lose_data()
    client.write({}, [KeyChange(f"p/{CLUSTER_KEY}", "another")])
    wait_until(lambda: host.mirror.lost, "the loss is seen")
    host.lease.renew_once()
    with pytest.raises(DMError, match="etcd has lost what it kept"):
        host.ownership.claim(SOURCE, "t")
    assert host.ownership.owner(SOURCE, "s") == "a"  # as it was known
    host.end()
    client.close()


def test_a_read_that_the_watch_has_overtaken_is_no_loss(hosts: tuple[Host, Host]) -> None:
    a, b = hosts
    read = a.etcd.read

    def late(prefix: str) -> KeysFound:
        found = read(prefix)
        assert b.mirror.write({}, [KeyChange("later", "x")])
        wait_until(lambda: a.mirror.get("later") is not None, "the watch has got further")
        return found

    a.etcd.read = late  # type: ignore[method-assign]
    assert not a.mirror.write({"later": 99}, [KeyChange("never", "x")])
    assert not a.mirror.lost
    assert a.mirror.get("later") is not None


def test_what_was_changed_while_the_watch_was_away_is_told(own_etcd: EtcdServer) -> None:
    client = own_etcd.client()
    client.write({}, [KeyChange(f"p/{CLUSTER_KEY}", "x"), KeyChange("p/goes", "x"), KeyChange("p/stays", "x")])
    host = Host(own_etcd, "p/", "a")
    told: set[str] = set()
    host.mirror.tell(told.update)
    own_etcd.kill()
    own_etcd.start()
    last = client.write({}, [KeyChange("p/goes", None), KeyChange("p/comes", "x")])
    client._call("kv/compaction", {"revision": str(last)}, safe=True, persistent=True)
    wait_until(lambda: told >= {"goes", "comes"}, "both are told")
    assert sorted(host.mirror.below("")) == ["cluster", "comes", "stays"]
    host.end()
    client.close()


def test_tls_user_and_password(tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    with EtcdServer(tmp_path / "etcd", authority) as server:
        server.demand_password()
        client = server.client("root", PASSWORD)
        assert client.write({}, [KeyChange("k", "v")]) is not None
        client._token = "one that has ended"
        assert client.read("k").entries["k"].value == "v"
        client.close()
        for user, password in (("root", "wrong"), ("", "")):
            refused = server.client(user, password)
            with pytest.raises(DMError, match="etcd refused the request"):
                refused.read("k")
            refused.close()
        stranger = Authority(tmp_path / "other", "other")
        access = EtcdAccess((server.endpoint,), authority=stranger.file.read_text(), user="root", password=PASSWORD)
        with pytest.raises(DMError, match="certificate verify failed"):
            Etcd(access, CLOCK).read("k")


def test_another_endpoint_is_asked_where_one_is_silent(etcd: EtcdServer, own_etcd: EtcdServer) -> None:
    own_etcd.freeze()
    client = Etcd(EtcdAccess((own_etcd.endpoint, etcd.endpoint)), CLOCK)
    assert client.read("nothing/").entries == {}
    sent = client.requests
    assert client.read("nothing/").entries == {}
    assert client.requests == sent + 1  # to the one that has answered
    client.close()


def test_the_watch_leaves_an_endpoint_that_is_silent(etcd: EtcdServer, own_etcd: EtcdServer) -> None:
    client, stop = Etcd(EtcdAccess((own_etcd.endpoint, etcd.endpoint)), CLOCK), threading.Event()
    batches = client.watch("nothing/", 0, stop)
    assert next(batches).begins
    own_etcd.freeze()
    assert client.read("nothing/").entries == {}  # by the other one
    with pytest.raises(DMError, match="the watch ended"):
        next(batches)
    batches = client.watch("nothing/", 0, stop)
    assert next(batches).begins
    assert client.read("nothing/").entries == {}
    assert client._watched_at == etcd.endpoint
    stop.set()
    client.interrupt()
    assert [*batches] == []
    client.close()
