"""For every collation of both servers: texts that the server takes for equal fold alike, over the whole BMP.

The full form is part of `make chaos`; `make test` takes a sample of collations and of texts.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Hashable, Iterator, Mapping
from itertools import groupby, product

import pytest

from dm.changes.collation import ASCII_CHARSETS, fold_for
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.schema.table import Column
from tests.live.changes.collation_points import UTF8, BulkWeights, CharacterSetTable, code_points, collations
from tests.live.changes.tables import endpoint_of
from tests.testbed.figures import record
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

PARTS = 8  # of the collations of a flavour, which MariaDB 10.11 has 1241 of, so that a machine's processors share them
ASKED_ALONE = 5  # texts per collation whose weight in bulk is compared with the answer to a question of its own


class Finding:
    """What came out for one collation."""

    def __init__(self, table: CharacterSetTable, collation: str, weights: BulkWeights) -> None:
        self.collation = collation
        self.violations: list[str] = []
        self.separated = 0  # classes of the server's
        self.folded = 0  # classes that are left
        self.one_key = False
        parts = _parts(table, collation, weights)
        if parts is None:
            self.one_key = True
            return
        opinions = table.opinions(collation)
        by_weight, by_rank = defaultdict(list), defaultdict(list)
        for n, (weight, rank) in opinions.items():
            by_weight[weight].append(n)
            by_rank[rank].append(n)
        for classes in (by_weight.values(), by_rank.values()):
            for alike in classes:
                found = {part for n in alike for part in parts[n]}
                if len(found) > 1:
                    self.violations.append(f"{collation}: {[table.texts[n][0].decode() for n in alike][:8]} -> {found}")
        self.separated = len(by_rank)
        self.folded = len({part for each in parts.values() for part in each})


def _parts(table: CharacterSetTable, collation: str, weights: BulkWeights) -> Mapping[int, set[Hashable]] | None:
    """By number of the text, what it folds to from a source in UTF-8 and from one in the character set itself."""
    target = Column("t", "varchar", length=12, charset=table.charset, collation=collation)
    own = fold_for(target, target, None, weights)
    source = Column("t", "varchar", length=12, charset=UTF8, collation=UTF8 + "_bin")
    utf8 = fold_for(source, target, None, weights)
    assert (own is None) is (utf8 is None), "one key from one source only is two keys from both"
    if own is None or utf8 is None:
        return None
    if table.charset == UTF8:
        return {n: {own(b)} for n, (_, b) in table.texts.items()}
    return {n: {own(b), utf8(u)} for n, (u, b) in table.texts.items()}


def examined(
    server: ThrowawayServer, schema: str, chosen: list[tuple[str, str]], texts: list[str]
) -> Iterator[Finding]:
    """The finding for each of these collations."""
    server_weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))
    chance = random.Random(20260713)
    try:
        with TargetConnection(endpoint_of(server)) as connection:
            for charset, group in groupby(chosen, key=lambda each: each[1]):
                table = CharacterSetTable(connection, schema, charset, texts)
                weights = BulkWeights(table, server_weights)
                for collation, _ in group:
                    finding = Finding(table, collation, weights)
                    if not finding.one_key:
                        assert not list(weights.disagreements(collation, chance, ASKED_ALONE))
                    yield finding
                table.drop()
    finally:
        server_weights.close()


@pytest.mark.parametrize("flavor", FLAVORS)
def test_equal_texts_fold_alike_in_a_sample_of_collations(
    park: ServerPark, flavor: Flavor, schema: SchemaFactory
) -> None:
    server = park.shared(flavor, "target")
    chance = random.Random(4)
    with TargetConnection(endpoint_of(server)) as connection:
        ascii_like = [each for each in collations(connection) if each[1] in ASCII_CHARSETS]
        chosen = sorted(chance.sample(ascii_like, 6), key=lambda each: each[1])
    texts = code_points()
    found = list(examined(server, schema(server), chosen, chance.sample(texts, 2000)))
    assert [violation for finding in found for violation in finding.violations] == []
    assert sum(not finding.one_key for finding in found) > 1


def test_thai_texts_end_at_a_nul_where_the_server_ends_them(park: ServerPark, schema: SchemaFactory) -> None:
    server = park.shared("mariadb", "target")
    texts = ["".join(letters) for size in range(5) for letters in product("\0aA กเ\u0e48", repeat=size)]
    chosen = [(collation, "tis620") for collation in ("tis620_thai_ci", "tis620_thai_nopad_ci")]
    padded, unpadded = examined(server, schema(server), chosen, texts)
    assert (padded.violations, unpadded.violations) == ([], [])
    assert (padded.one_key, unpadded.one_key) == (False, False)
    assert unpadded.folded < padded.folded  # what is after the NUL makes no difference


@pytest.mark.chaos
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("flavor", FLAVORS)
def test_equal_texts_fold_alike_in_every_collation(
    park: ServerPark, flavor: Flavor, schema: SchemaFactory, part: int
) -> None:
    server = park.shared(flavor, "target")
    with TargetConnection(endpoint_of(server)) as connection:
        every = collations(connection)
        chosen = every[len(every) * part // PARTS : len(every) * (part + 1) // PARTS]
        version = connection.version_text
    texts = code_points()
    found = list(examined(server, schema(server), chosen, texts))
    violations = [violation for finding in found for violation in finding.violations]
    folded = [finding for finding in found if not finding.one_key]
    record(
        f"changes.collations_{flavor}.{part}",
        {
            "server": version,
            "collations": len(found),
            "texts": len(texts),
            "one_key_for_all_texts": len(found) - len(folded),
            "classes_of_the_server": sum(finding.separated for finding in folded),
            "classes_folded": sum(finding.folded for finding in folded),
            "violations": len(violations),
        },
    )
    assert violations == []
