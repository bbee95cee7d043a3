"""Equal in the server means equal folded, asked of both servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dm.changes.collation import ASCII_CHARSETS, fold_for
from dm.demo.servers import ThrowawayServer
from dm.downstream.connection import TargetConnection
from dm.downstream.filter_session import ServerWeights
from dm.mysql.dialect import FLAVORS, Flavor
from dm.mysql.schema.table import Column
from tests.live.changes.tables import endpoint_of
from tests.testbed.park import ServerPark

pytestmark = pytest.mark.live

COLLATIONS: dict[Flavor, tuple[str, ...]] = {
    "mysql": (
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_as_ci",
        "utf8mb4_0900_as_cs",
        "utf8mb4_0900_bin",
        "utf8mb4_bin",
        "utf8mb4_general_ci",
        "utf8mb4_unicode_ci",
        "utf8mb4_unicode_520_ci",
        "utf8mb4_de_pb_0900_ai_ci",
        "utf8mb4_hu_0900_ai_ci",
        "utf8mb4_spanish2_ci",
        "utf8mb4_ja_0900_as_cs_ks",
        "utf8mb3_general_ci",
        "latin1_swedish_ci",
        "latin1_german2_ci",
        "latin1_bin",
        "ascii_general_ci",
        "cp1250_czech_cs",
        "gbk_chinese_ci",
    ),
    "mariadb": (
        "utf8mb4_general_ci",
        "utf8mb4_general_nopad_ci",
        "utf8mb4_unicode_ci",
        "utf8mb4_unicode_520_ci",
        "utf8mb4_unicode_nopad_ci",
        "utf8mb4_uca1400_ai_ci",
        "utf8mb4_uca1400_as_cs",
        "utf8mb4_uca1400_nopad_as_ci",
        "utf8mb4_spanish2_ci",
        "utf8mb4_danish_ci",
        "utf8mb4_bin",
        "utf8mb4_nopad_bin",
        "utf8mb3_general_ci",
        "latin1_swedish_ci",
        "latin1_german2_ci",
        "cp1250_czech_cs",
        "gbk_chinese_ci",
        "tis620_thai_nopad_ci",
    ),
}
# What the fast way exists for: a version in which these are not proven any more would be slow, and should be noticed.
PROVEN: dict[Flavor, tuple[str, ...]] = {
    "mysql": (
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_as_cs",
        "utf8mb4_general_ci",
        "utf8mb4_unicode_ci",
        "latin1_swedish_ci",
        "utf8mb3_general_ci",
    ),
    "mariadb": ("utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb4_uca1400_ai_ci", "latin1_swedish_ci"),
}
UNPROVEN: dict[Flavor, tuple[str, ...]] = {
    "mysql": ("utf8mb4_hu_0900_ai_ci", "utf8mb4_spanish2_ci", "cp1250_czech_cs"),
    "mariadb": ("utf8mb4_spanish2_ci", "utf8mb4_danish_ci", "utf8mb4_uca1400_as_cs", "cp1250_czech_cs"),
}

# Letters with and without marks, contractions, expansions, ignorables, spaces of several kinds, wide characters.
_CHARACTERS = st.sampled_from(
    "aAäáåeéEsßSzZcChHlLjJdD 19-_'\\\t\n\0\x7f\u00a0\u00ad\u200b\u0301ŁłÅıİIi日本ゝガカ゛\u3000😀"
)
_TEXTS = st.lists(_CHARACTERS, max_size=5).map("".join)


@st.composite
def _variant(draw: st.DrawFn, text: str) -> str:
    """A text that many collations take for the same."""
    swaps = {
        "a": "Aáä",
        "e": "Eé",
        "s": "S",
        "ß": "ss",
        "å": "aa",
        "i": "Iıİ",
        " ": "\u00a0",
        "h": "H",
        "z": "Z",
        "c": "C",
    }
    changed = "".join(draw(st.sampled_from([c, c, *swaps.get(c.lower(), c)])) for c in text)
    return changed + draw(st.sampled_from(["", "", " ", "  ", "\u00ad", "\u0301", "\0"]))


class Judge:
    """One server: what it takes for equal, and what the product's folds make of it."""

    def __init__(self, server: ThrowawayServer) -> None:
        self.connection = TargetConnection(endpoint_of(server))
        self.weights = ServerWeights(lambda: TargetConnection(endpoint_of(server)))

    def equal(self, first: bytes, second: bytes, charset: str, collation: str, prefix: int | None) -> bool:
        """Whether a unique key over a column of the collation has room for only one of the two."""
        texts = [f"CONVERT(_{charset} {'0x' + t.hex() if t else repr('')} USING {charset})" for t in (first, second)]
        if prefix is not None:
            texts = [f"LEFT({text}, {prefix})" for text in texts]
        return bool(self.connection.query(f"SELECT {texts[0]} COLLATE {collation} = {texts[1]}")[0][0])

    def close(self) -> None:
        self.connection.close()
        self.weights.close()


@pytest.fixture(scope="module")
def judges(park: ServerPark) -> Iterator[dict[Flavor, Judge]]:
    made = {flavor: Judge(park.shared(flavor, "target")) for flavor in FLAVORS}
    yield made
    for judge in made.values():
        judge.close()


CASES = [(flavor, collation) for flavor in FLAVORS for collation in COLLATIONS[flavor]]


@pytest.mark.parametrize(("flavor", "collation"), CASES)
def test_what_the_server_takes_for_equal_is_one_key(
    judges: dict[Flavor, Judge], flavor: Flavor, collation: str
) -> None:
    judge = judges[flavor]
    charset = collation.partition("_")[0]
    codec = {"utf8mb4": "utf-8", "utf8mb3": "utf-8"}.get(charset, {"latin1": "cp1252"}.get(charset, charset))
    column = Column("t", "varchar", length=20, charset=charset, collation=collation)

    @settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.data(), _TEXTS, st.sampled_from([None, None, 2]))
    def check(data: st.DataObject, text: str, prefix: int | None) -> None:
        other = data.draw(_variant(text) | _TEXTS)
        try:
            first, second = text.encode(codec), other.encode(codec)
        except UnicodeEncodeError:
            assume(False)
        assume(charset != "utf8mb3" or max(text + other, default="a") < "\U00010000")
        fold = fold_for(column, column, prefix, judge.weights)
        if fold is None:  # all values are one key
            assert collation in ("cp1250_czech_cs", "gbk_chinese_ci")
            return
        if judge.equal(first, second, charset, collation, prefix):
            assert fold(first) == fold(second)
        elif first.isascii() and second.isascii() and first.lower() != second.lower() and not prefix:
            # Not a duty, but what the folding is for: plainly different texts are different keys.
            printable = all(32 <= c < 127 for c in first + second)
            assert not printable or fold(first) != fold(second) or first.rstrip().lower() == second.rstrip().lower()

    check()


@pytest.mark.parametrize(("flavor", "collation"), [(f, c) for f in FLAVORS for c in PROVEN[f]])
def test_the_usual_collations_are_proven_and_ask_nothing_for_ascii(
    judges: dict[Flavor, Judge], flavor: Flavor, collation: str
) -> None:
    weights = judges[flavor].weights
    assert weights.profile(collation) is not None
    column = Column("t", "varchar", length=20, charset=collation.partition("_")[0], collation=collation)
    fold = fold_for(column, column, None, weights)
    assert fold is not None
    asked = weights.questions
    assert fold(b"Some Key-42 ") == b"some key-42"
    assert weights.questions == asked


@pytest.mark.parametrize(("flavor", "collation"), [(f, c) for f in FLAVORS for c in UNPROVEN[f]])
def test_contractions_and_unreadable_levels_are_not_proven(
    judges: dict[Flavor, Judge], flavor: Flavor, collation: str
) -> None:
    assert judges[flavor].weights.profile(collation) is None


@pytest.mark.parametrize("flavor", FLAVORS)
def test_accents_meet_plain_letters(judges: dict[Flavor, Judge], flavor: Flavor) -> None:
    column = Column("t", "varchar", length=20, charset="utf8mb4", collation="utf8mb4_unicode_ci")
    latin1 = Column("t", "varchar", length=20, charset="latin1", collation="latin1_swedish_ci")
    weights = judges[flavor].weights
    fold, from_latin1 = fold_for(column, column, None, weights), fold_for(latin1, column, None, weights)
    assert fold is not None
    assert from_latin1 is not None
    assert fold("Ünïcode ".encode()) == fold(b"unicode") == b"unicode"
    assert from_latin1("Ünïcode".encode("cp1252")) == b"unicode"


@pytest.mark.parametrize("flavor", FLAVORS)
def test_ascii_is_ascii_in_the_character_sets_that_say_so(judges: dict[Flavor, Judge], flavor: Flavor) -> None:
    connection = judges[flavor].connection
    present = {str(row[0]) for row in connection.query("SHOW CHARACTER SET")}
    everything = bytes(range(128))
    for charset in sorted(ASCII_CHARSETS & present):
        for statement in (
            f"SELECT CAST(CONVERT(_{charset} 0x{everything.hex()} USING utf8mb4) AS BINARY)",
            f"SELECT CAST(CONVERT(_utf8mb4 0x{everything.hex()} USING {charset}) AS BINARY)",
        ):
            assert connection.query(statement)[0][0] == everything, charset
    assert len(ASCII_CHARSETS & present) > 25
