"""Sums of rows: what they don't depend on, and what they see."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from operator import add, xor
from zlib import crc32

from dm.mysql.equality.checksum import Checksum, SequenceSum
from tests.unit.docs.document import ROOT

ROWS = [b"a", b"b", b"c"]


def total(rows: list[bytes]) -> Checksum:
    return reduce(add, map(Checksum.of, rows), Checksum())


def test_the_order_and_the_parts_do_not_count() -> None:
    assert total(ROWS) == total(ROWS[::-1]) == total(ROWS[:1]) + total(ROWS[1:])


def test_every_single_change_counts() -> None:
    others = [["a", "b"], ["a", "b", "d"], ["a", "b", "c", "c"], ["a", "a", "b"], []]
    assert all(total([row.encode() for row in rows]) != total(ROWS) for rows in others)


def test_a_pair_of_equal_rows_for_another_counts() -> None:
    one, other = total([b"a", b"a"]), total([b"b", b"b"])
    assert (one.rows, one.mixed) == (other.rows, other.mixed)
    assert one != other


def test_rows_that_exchange_a_value_count() -> None:
    """An exclusive or of CRC32s, which is linear, does not see it, whatever stands before each text."""
    before, after = [b"1,apple,x", b"2,peach,x"], [b"1,peach,x", b"2,apple,x"]

    def crc(rows: Sequence[bytes], salt: bytes = b"", joined: Callable[[int, int], int] = xor) -> int:
        return reduce(joined, [crc32(salt + row) for row in rows], 0)

    assert all(crc(before, salt) == crc(after, salt) for salt in (b"", b"a", b"salt"))
    assert crc(before, joined=add) != crc(after, joined=add)
    # Differently salted CRC32s of texts of one length differ by a constant: a second one tells nothing more.
    assert len({crc32(b"a" + row) ^ crc32(b"b" + row) for row in (*before, *after)}) == 1
    assert total(before) != total(after)


def test_the_order_of_a_sequence_counts_and_all_its_rows() -> None:
    same = SequenceSum.of(ROWS)
    assert same == SequenceSum.of(list(ROWS))
    others = [ROWS[::-1], ROWS[:2], [*ROWS, b"c"], [b"ab", b"c"], []]
    assert len({SequenceSum.of(rows).digest for rows in others} | {same.digest}) == len(others) + 1


def test_a_sequence_is_hashed_on_the_way() -> None:
    rows = [bytes([letter]) * 200 for letter in b"abcdefgh"]
    others = [[*rows[:at], b"x", *rows[at + 1 :]] for at in range(len(rows))] + [[rows[1], rows[0], *rows[2:]]]
    assert len({SequenceSum.of(each).digest for each in (rows, *others)}) == len(others) + 1


def test_a_sequence_with_a_row_less_is_no_answer() -> None:
    digest = "ab" * 32
    assert SequenceSum.answered((2, 2), digest.encode()) == SequenceSum.answered((2, 2), digest)
    assert SequenceSum.answered((2, 2), digest) == SequenceSum(2, digest)
    assert SequenceSum.answered((2, 1), digest) is None
    assert SequenceSum.answered((2, 2), None) is None, "a digest that is NULL is none, of whatever rows"
    nothing = SequenceSum.of([]).digest
    assert SequenceSum.answered((2, 2), nothing) is None, "the server has counted the rows, and hashed none"
    assert SequenceSum.answered((0, 0), nothing) == SequenceSum(0, nothing)


def test_a_server_that_could_not_hash_all_rows_has_said_nothing() -> None:
    assert Checksum.answered((3, 2, 5, 6)) is None
    assert Checksum.answered((3, 3, (1 << 64) + 5, 6)) == Checksum(3, 5, 6)
    assert Checksum.answered((0, 0, None, 0)) == Checksum()


def test_no_other_module_sums_up_rows_in_sql() -> None:
    """What makes two rows the same on two sides, and what their sums are, only this package says.

    `row_hash`, with `types/bytes`, stands for the bytes of a row at one server, and compares no sides.
    """
    functions = ("SHA2(", "GROUP_CONCAT(", "BIT_XOR(", "HEX(POINT(")
    found = {
        path.stem if path.parent.name != "equality" else "equality"
        for path in (ROOT / "dm").rglob("*.py")
        if any(each in path.read_text(encoding="utf-8") for each in functions)
    }
    assert found == {"equality", "row_hash", "bytes"}
