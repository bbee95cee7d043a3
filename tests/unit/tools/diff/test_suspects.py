"""When a row that differs counts as different, while changes are applied."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from dm.tools.diff.chunk import Chunk, ChunkOutcome
from dm.tools.diff.fix import Fix
from dm.tools.diff.report import SAME_LOOKS, Found, Suspects
from dm.tools.diff.versions import ROW_COST, Difference

CHUNK, OTHER = Chunk(0, 1, ""), Chunk(1, 1, "")


def seen(*identities: str) -> dict[str, Difference]:
    return {each: Difference(each, each, None, {}, (), 0, 1, Fix()) for each in identities}


def looked(looks: Iterable[str], *, rests: bool = False) -> Suspects[Chunk, Difference]:
    """One letter for each row that a look at the chunk has seen."""
    first, *others = looks
    suspects = Suspects({CHUNK: seen(*first)})
    for look in others:
        assert suspects.open == [CHUNK]
        suspects.look({CHUNK: seen(*look)}, rests=rests)
    return suspects


def confirmed(suspects: Suspects[Chunk, Difference]) -> Mapping[Chunk, list[str]]:
    return {chunk: [each.identity for each in found] for chunk, found in suspects.confirmed()}


def test_a_row_has_to_be_seen_often_while_the_sources_are_written_to() -> None:
    for looks in range(1, SAME_LOOKS):
        assert confirmed(looked(["a"] * looks)) == {}
        assert list(looked(["a"] * looks).unsettled()) == [(CHUNK, ["a"])]
    over = looked(["a"] * SAME_LOOKS)
    assert confirmed(over) == {CHUNK: ["a"]}
    assert not over.open
    assert not list(over.unsettled())


def test_a_row_that_came_back_begins_anew() -> None:
    suspects = looked(["ab", "ab", "ab", "a"])
    assert confirmed(suspects) == {CHUNK: ["a"]}
    assert not suspects.open
    assert confirmed(looked(["ab", "a", "ab", "ab"])) == {CHUNK: ["a"]}
    assert list(looked(["ab", "a", "ab", "ab"]).unsettled()) == [(CHUNK, ["b"])]


def test_where_the_sources_rest_one_more_look_says_it_all() -> None:
    suspects = looked(["ab", "bc"], rests=True)
    assert confirmed(suspects) == {CHUNK: ["b", "c"]}
    assert not suspects.open


def test_what_is_known_is_not_told_again() -> None:
    suspects = looked(["ab", "ab", "ab", "abc", "abc"])
    assert confirmed(suspects) == {CHUNK: ["a", "b"]}
    assert list(suspects.unsettled()) == [(CHUNK, ["c"])]


def test_a_chunk_that_is_equal_by_now_is_not_looked_at_again() -> None:
    suspects = Suspects({CHUNK: seen("a"), OTHER: seen("b")})
    suspects.look({OTHER: seen("b")}, rests=False)
    assert suspects.open == [OTHER]


def test_what_was_not_looked_at_waits() -> None:
    suspects = Suspects({CHUNK: seen("a"), OTHER: seen("b")})
    suspects.look({OTHER: seen("b")}, rests=True, at={OTHER})
    assert confirmed(suspects) == {OTHER: ["b"]}
    assert suspects.open == [CHUNK]
    suspects.look({CHUNK: seen("a")}, rests=True, at={CHUNK})
    assert confirmed(suspects) == {OTHER: ["b"], CHUNK: ["a"]}


def test_what_begins_anew_elsewhere_is_told_there_alone() -> None:
    suspects = Suspects({CHUNK: seen("a"), OTHER: seen("b")})
    suspects.look({CHUNK: seen("a", "c"), OTHER: seen("b")}, rests=True, at={CHUNK})
    suspects.look({OTHER: seen("b")}, rests=False, at={OTHER})
    suspects.forget([CHUNK, OTHER])
    assert (confirmed(suspects), suspects.open, list(suspects.unsettled())) == ({}, [], [])


def test_a_look_knows_how_much_it_keeps() -> None:
    fix = Fix((b"d" * 300,), (b"i" * 2000,) * 5)
    worded = Difference("a", "a", {"v": "x" * 500}, {"v": "y" * 100}, (), 5, 1, fix)
    found = Found()
    found.hear(ChunkOutcome(CHUNK, differences=(worded,)))
    found.hear(ChunkOutcome(OTHER, differences=tuple(seen("b").values())))
    assert found.size == 2 * ROW_COST + 300 + 2000 + 501 + 101


def test_a_look_keeps_what_was_found_by_table_and_chunk() -> None:
    found = Found()
    found.hear(ChunkOutcome(CHUNK, differences=tuple(seen("a").values())))
    found.hear(ChunkOutcome(OTHER, changed="gone"))
    found.hear(ChunkOutcome(Chunk(2, 1, "")))
    assert found.different == {CHUNK: seen("a")}
    assert found.changed == {1: "gone"}
