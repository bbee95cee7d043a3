"""The workload writes what it promises, and the comparer agrees with the server about it."""

from __future__ import annotations

import random
import threading

import pytest

from dm.demo.compare import compare, pair_tables
from dm.demo.servers import ThrowawayServer
from dm.demo.shop import Shop, load_all
from dm.demo.workload import Scene, Writer
from dm.mysql.dialect import Flavor
from tests.testbed.fixtures import SchemaFactory, ServerFactory
from tests.testbed.hot_keys import HotKeys

pytestmark = [pytest.mark.live, pytest.mark.ci_flavor("mysql")]

SEED = 20_240_229


def create(server: ThrowawayServer, scene: Scene) -> None:
    server.execute(f"DROP DATABASE IF EXISTS {scene.schema}", *scene.create())


def wait_for(writer: Writer, transactions: int) -> None:
    pause = threading.Event()
    while writer.tally.transactions < transactions:
        assert not pause.wait(0.01)


def test_a_shop_is_filled_to_the_last_row_on_both_upstreams(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], schema: SchemaFactory
) -> None:
    name = schema(*upstreams)
    shops = [(server, Shop(name, shard=shard, rows=6000)) for shard, server in enumerate(upstreams)]
    for server in upstreams:
        server.execute(f"DROP DATABASE {name}")
    assert load_all(shops, SEED) == 12_000
    counts = "SELECT " + " + ".join(
        f"(SELECT COUNT(*) FROM {name}.{table})" for table in ("customers", "orders", "line_items", "visits")
    )
    assert [server.query(counts) for server in upstreams] == [((6000,),)] * 2


def test_the_same_seed_fills_the_same_shop(
    upstream: ThrowawayServer, target: ThrowawayServer, schema: SchemaFactory
) -> None:
    name = schema(upstream, target)
    for server in (upstream, target):
        server.execute(f"DROP DATABASE {name}")
        load_all([(server, Shop(name, shard=1, rows=3000))], SEED)
    # The moment of the last change is the server's own.
    for server in (upstream, target):
        server.execute(f"UPDATE {name}.customers SET changed = '2024-01-01'")
    report = compare(pair_tables([upstream], [name]), target)
    assert report.identical, str(report)
    assert report.rows == 3000


def test_a_shop_lives_through_its_alters(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    shop = Shop(schema(upstream), shard=0, rows=1200)
    upstream.execute(f"DROP DATABASE {shop.schema}")
    load_all([(upstream, shop)], SEED)
    with Writer(upstream, shop, seed=SEED) as writer:
        wait_for(writer, 150)
        assert writer.alter().startswith("ALTER TABLE")
        wait_for(writer, 300)
        writer.alter()
        wait_for(writer, 400)
    tally = writer.tally
    assert tally.alters == 2
    assert {"INSERT", "UPDATE", "DELETE"} <= tally.by_verb.keys()
    ((late,),) = upstream.query(f"SELECT COUNT(*) FROM {shop.schema}.orders WHERE shipped_at IS NOT NULL")
    assert late > 0
    ((unknown,),) = upstream.query(
        f"SELECT COUNT(*) FROM {shop.schema}.line_items WHERE order_id NOT IN (SELECT id FROM {shop.schema}.orders)"
    )
    assert unknown == 0


def test_hot_keys_move_and_keyless_rows_repeat(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    scene = HotKeys(schema(upstream), shard=3)
    create(upstream, scene)
    with Writer(upstream, scene, seed=SEED) as writer:
        wait_for(writer, 400)
        writer.alter()
        writer.alter()
        wait_for(writer, 700)
    assert {"INSERT", "UPDATE", "DELETE", "REPLACE"} <= writer.tally.by_verb.keys()
    assert writer.tally.rolled_back > 0
    # By the end something stands everywhere, and some keyless rows are equal.
    for table in ("hot", "coded", "keyless"):
        assert upstream.query(f"SELECT COUNT(*) > 0 FROM {scene.schema}.{table}") == ((1,),)
    ((distinct, rows),) = upstream.query(
        f"SELECT COUNT(DISTINCT v, COALESCE(w, '-'), f, t), COUNT(*) FROM {scene.schema}.keyless"
    )
    assert distinct < rows


def test_two_shards_never_share_a_key(
    upstreams: tuple[ThrowawayServer, ThrowawayServer], schema: SchemaFactory
) -> None:
    name = schema(*upstreams)
    scenes = [HotKeys(name, shard=shard) for shard in (1, 2)]
    writers = []
    for server, scene in zip(upstreams, scenes, strict=True):
        create(server, scene)
        writers.append(Writer(server, scene, seed=SEED).start())
    for writer in writers:
        wait_for(writer, 300)
        writer.stop()
    for column, table in (("id", "hot"), ("a", "hot"), ("word", "hot"), ("code", "coded"), ("v", "keyless")):
        seen = [
            {str(value) for (value,) in server.query(f"SELECT {column} FROM {name}.{table}") if value is not None}
            for server in upstreams
        ]
        assert not seen[0] & seen[1], column


def test_the_sequence_depends_on_the_seed_alone() -> None:
    def play(seed: int) -> list[object]:
        chance, scene = random.Random(seed), HotKeys("s")
        return [scene.transaction(chance) for _ in range(50)]

    assert play(1) == play(1)
    assert play(1) != play(2)


def test_a_writer_survives_its_server(server: ServerFactory, flavor: Flavor) -> None:
    victim = server(flavor)
    scene = HotKeys("s")
    create(victim, scene)
    with Writer(victim, scene, seed=SEED) as writer:
        wait_for(writer, 50)
        victim.kill()
        victim.start()
        wait_for(writer, writer.tally.transactions + 50)
    assert writer.tally.outages > 0


def test_a_paused_writer_writes_nothing(upstream: ThrowawayServer, schema: SchemaFactory) -> None:
    scene = HotKeys(schema(upstream))
    create(upstream, scene)
    with Writer(upstream, scene, seed=SEED) as writer:
        wait_for(writer, 50)
        writer.pause()
        before = writer.tally.transactions, upstream.query(f"CHECKSUM TABLE {scene.schema}.hot")
        assert (writer.tally.transactions, upstream.query(f"CHECKSUM TABLE {scene.schema}.hot")) == before
        writer.resume()
        wait_for(writer, before[0] + 20)


def test_a_defect_of_the_scene_is_raised_with_the_seed(upstream: ThrowawayServer) -> None:
    writer = Writer(upstream, HotKeys("no_such_schema"), seed=4711).start()
    with pytest.raises(RuntimeError, match="4711"):
        writer.alter()
    with pytest.raises(RuntimeError, match="4711"):
        writer.stop()
