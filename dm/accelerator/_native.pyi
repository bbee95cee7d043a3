from collections.abc import Callable, Sequence
from typing import Any

sources: int

class Layout:
    def __init__(
        self, steps: tuple[tuple[int, int, int, int, Callable[[bytes], Any] | None] | None, ...], absent: object, /
    ) -> None: ...

class TextRows:
    def __init__(self, width: int, /) -> None: ...
    def run(self, data: bytes | bytearray, start: int, end: int, rows: int, size: int, /) -> tuple[int, int, int]: ...
    def row(self, data: bytes | bytearray, start: int, end: int, /) -> bool: ...
    def take(self) -> list[tuple[int, bytes | None, bytes, bytes]]: ...

class Literals:
    def __init__(
        self, steps: tuple[tuple[int, int, bytes, Callable[[Any], bytes]], ...], open: bytes, close: bytes, /
    ) -> None: ...
    def __call__(self, row: tuple[Any, ...], /) -> bytes: ...

class ChangeMaker:
    def __init__(self, change_type: type, factor: int, each: int, /) -> None: ...
    def __call__(
        self, items: list[Any], at: int, tables: dict[int, tuple[Any, ...]], safe: bool, /
    ) -> tuple[list[Any], int, int]: ...
    def spread(
        self,
        holder: dict[Any, int],
        changes: list[Any],
        at: int,
        free: int,
        follows: bool,
        limit: int,
        room: tuple[list[int], list[int], int, int, int, int, int],
        /,
    ) -> tuple[list[tuple[int, list[Any]]], int]: ...

def compacted(
    changes: Sequence[Any],
    limit: int,
    made: type,
    kinds: tuple[Any, Any, Any, Any],
    keys_of: Callable[[Any], tuple[Any, ...]],
    absent: object,
    wild: object,
    /,
) -> Sequence[Any] | None: ...
def grouped(
    changes: Sequence[Any],
    limit: int,
    made: type,
    keys_of: Callable[[Any], tuple[Any, ...]],
    alone: Callable[[Any], list[Any]],
    absent: object,
    wild: object,
    /,
) -> list[Any] | None: ...
def decode(before: Layout | None, after: Layout | None, data: bytes, start: int, end: int, /) -> list[Any] | None: ...
def decode_rows(layouts: dict[bytes, Layout], rows: tuple[Any, ...], /) -> list[Any] | None: ...
def frames(
    data: bytes, start: int, end: int, checksum: bool, place: int, event_type: type, header_type: type, /
) -> tuple[Sequence[Any], int]: ...
def local_data(
    columns: tuple[tuple[Any, Any, Any, int], ...], start: int, rows: int, size: int, /
) -> tuple[bytes, int]: ...
def rows_event(
    kind: str,
    version2: bool,
    partial: bool,
    made: type,
    handler: Callable[..., Any],
    data: bytes,
    start: int,
    end: int,
    header: tuple[int, ...],
    /,
) -> Any: ...
def rows_of(
    events: Sequence[Any],
    at: int,
    trailing: int,
    bodies: dict[bytes, Any],
    maps: dict[int, Any],
    forms: dict[int, tuple[str, bool, bool, bool]],
    event_type: type,
    rows_type: type,
    item_type: type,
    /,
) -> tuple[list[Any], int, int, int]: ...
def table_map_event(
    known: dict[bytes, Any],
    handler: Callable[..., Any],
    data: bytes,
    start: int,
    end: int,
    header: tuple[int, ...],
    /,
) -> Any: ...
def cut(
    data: bytearray | memoryview,
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
) -> tuple[int, int, int, int, BaseException | None]: ...
def json_text(doc: bytes, /) -> str | None: ...
def crc32(data: bytes | bytearray | memoryview, /) -> int: ...
def transactions_of(
    events: Sequence[Any],
    at: int,
    trailing: int,
    bodies: dict[bytes, Any],
    maps: dict[int, Any],
    forms: dict[int, tuple[str, bool, bool, bool]],
    sessions: dict[bytes, Any],
    largest: int,
    event_type: type,
    rows_type: type,
    item_type: type,
    /,
) -> tuple[list[tuple[bytes | int | None, int, int, int, list[Any], int, int, int]], int]: ...
