from collections.abc import Callable
from typing import Any

class Layout:
    def __init__(
        self, steps: tuple[tuple[int, int, int, int, Callable[[bytes], Any] | None] | None, ...], absent: object, /
    ) -> None: ...

def decode(before: Layout | None, after: Layout | None, data: bytes, start: int, end: int, /) -> list[Any] | None: ...
def cut(
    data: bytes,
    start: int,
    sequence: int,
    offset: int,
    checksum: bool,
    ways: bytearray,
    boundary: object,
    inside: int,
    table_ids: set[bytes],
    feed: Callable[[bytes, int], bool],
    /,
) -> tuple[bytes, int, int, int, BaseException | None]: ...
def json_text(doc: bytes, /) -> str | None: ...
def crc32(data: bytes | bytearray | memoryview, /) -> int: ...
