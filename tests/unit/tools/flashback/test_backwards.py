"""Records come back from the last to the first, and other bytes on the disk are noticed."""

from __future__ import annotations

from pathlib import Path

import pytest

from dm.errors import DMError
from dm.tools.flashback.tables import BackwardsFile


@pytest.mark.parametrize("sizes", [(), (0,), (5, 0, 1), (1 << 18, 3, (1 << 19) + 7, 12), tuple(range(2000))])
def test_records_come_backwards(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    file = BackwardsFile(tmp_path / "undone")
    written = [bytes([number % 251]) * size for number, size in enumerate(sizes)]
    for record in written:
        file.append(record)
    assert list(file.backwards()) == written[::-1]
    file.close()
    assert not (tmp_path / "undone").exists()


@pytest.mark.parametrize("at", [0, 5, 9, 20])
def test_another_byte_is_noticed(tmp_path: Path, at: int) -> None:
    file = BackwardsFile(tmp_path / "undone")
    for record in (b"first", b"second"):
        file.append(record)
    assert len(list(file.backwards())) == 2
    content = bytearray((tmp_path / "undone").read_bytes())
    content[at] ^= 0x40
    (tmp_path / "undone").write_bytes(content)
    with pytest.raises(DMError) as raised:
        list(file.backwards())
    assert raised.value.name == "spool-damaged"
    file.close()
