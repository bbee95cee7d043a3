"""The text of a BINLOG statement is the one that Python makes, however the bytes are cut into pieces."""

from __future__ import annotations

import random
from base64 import b64encode
from types import ModuleType

import pytest

from dm.accelerator import switch
from dm.mysql.binlog.row_events import binlog_statement

SIZES = (0, 1, 2, 3, 4, 5, 80, 1001)


@pytest.mark.parametrize("compiled", [False, True], ids=["python", "compiled"])
def test_the_statement_has_the_bytes(native: ModuleType, compiled: bool) -> None:
    chance = random.Random(64)
    with switch.using(native if compiled else None):
        for count in range(600):
            pieces = [chance.randbytes(chance.choice(SIZES)) for _ in range(count % 9)]
            found = binlog_statement(pieces)
            assert found == b"BINLOG '" + b64encode(b"".join(pieces)) + b"'"


def test_every_three_bytes_have_their_digits(native: ModuleType) -> None:
    high, low = bytes(range(256)), bytes(reversed(range(256)))
    pieces = [bytes(each) for each in zip(high, low, high[7:] + high[:7], strict=True)]
    assert native.binlog_statement(pieces) == b"BINLOG '" + b64encode(b"".join(pieces)) + b"'"


def test_what_is_no_bytes_makes_no_statement(native: ModuleType) -> None:
    for pieces in ([b"", "text"], [bytearray(3)], 7):
        with pytest.raises(TypeError):
            native.binlog_statement(pieces)
