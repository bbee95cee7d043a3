"""`python -m tests.unit.accelerator.fuzzing LIBRARY SEED COUNT`: bad bytes into an extension built to notice.

The extension is loaded from LIBRARY, which AddressSanitizer watches; anything it reads or writes outside of its memory
ends this process. What it answers is compared with Python's answers too.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import importlib.util
import random
import struct
import sys
from pathlib import Path
from types import ModuleType

import pymysql

from dm import accelerator
from dm.accelerator.native import hand_over
from dm.errors import DMError
from dm.gtid import GtidSet
from dm.mysql.binlog.frame import checked_events
from dm.mysql.binlog.gtid_history import GtidHistory
from dm.mysql.dialect import Flavor
from dm.sourcelog.relaylog.event_run import EventRun
from dm.sourcelog.relaylog.index import FileIndex, IndexBuilder
from tests.testbed.decoders import compiled, outcome, running, told
from tests.unit.accelerator import placing_at_random
from tests.unit.accelerator.batches_at_random import any_batch, copied, made
from tests.unit.accelerator.changes_at_random import compare
from tests.unit.accelerator.literals_at_random import any_columns, any_value, written
from tests.unit.accelerator.rows_at_random import damaged, document, sample
from tests.unit.accelerator.transactions_at_random import agree
from tests.unit.dumpfiles.test_text_rows import read, stream
from tests.unit.mysql.binlog.mutation import Mutator
from tests.unit.mysql.binlog.test_json_decoder import stored
from tests.unit.sourcelog.relaylog.binlog_bytes import placed, transaction
from tests.unit.sourcelog.relaylog.packets import Packets, packed


def loaded(path: str) -> ModuleType:
    """The extension in this file."""
    name = "dm.accelerator._native"
    loader = importlib.machinery.ExtensionFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    made = importlib.util.module_from_spec(spec)
    loader.exec_module(made)
    return made


def fuzz_rows(native: ModuleType, seed: int) -> None:
    """Rows of any table."""
    found = sample(seed, damage=True)
    python = outcome(None, found.table_map, found.columns, found.rows)
    assert told(outcome(native, found.table_map, found.columns, found.rows)) == told(python), seed


def fuzz_literals(native: ModuleType, chance: random.Random) -> None:
    """Values of any type in columns of any type; both agree, or raise the same."""
    columns = any_columns(chance)
    row = tuple(any_value(chance) for _ in range(len(columns) + chance.randrange(2)))
    assert written(native, columns, row) == written(None, columns, row), (columns, row)


def fuzz_batches(native: ModuleType, chance: random.Random) -> None:
    """Changes of a few rows, with values that no table takes."""
    with running(native):  # the plans have its literals
        batch = any_batch(chance)
    limit = chance.choice((100, 1000, 1 << 20))
    assert made(native, copied(batch), limit) == made(None, copied(batch), limit), batch
    native.tally([*batch, *chance.choice(([], [None], batch))])


def fuzz_json(native: ModuleType, chance: random.Random) -> None:
    """Damaged documents; each in memory of its own size, so that one byte too far is noticed."""
    native.json_text(damaged(chance, stored(document(chance), chance.random() < 0.3)))


def fuzz_cuts(native: ModuleType, chance: random.Random) -> None:
    """Any bytes as an image, by sizes that are mostly some."""
    columns = [struct.pack("<HBB", chance.choice((0, 1, 4, 9)), chance.choice((0, 0, 1, 2, 4)), chance.randrange(2))
               for _ in range(chance.randrange(9))]  # fmt: skip
    cut = struct.pack("<H", chance.randrange(20)) + b"".join(columns)
    native.cut_image(damaged(chance, cut) if chance.random() < 0.3 else cut, chance.randbytes(chance.randrange(40)))


def fuzz_frames(native: ModuleType, chance: random.Random) -> None:
    """Damaged pieces of a file."""
    events = placed([event for number in range(3) for event in transaction(number + 1, chance.randrange(200))])
    data = damaged(chance, b"".join(events))
    found = []
    for extension in (None, native):
        with running(extension):
            whole, end = checked_events(data, 0, len(data), len(data) % 2 == 0)
            found.append((list(whole), end))
    assert found[0] == found[1]


def fuzz_packets(native: ModuleType, chance: random.Random) -> None:
    """Damaged packets."""
    events = placed([event for number in range(3) for event in transaction(number + 1, chance.randrange(200))])
    results = []
    data = packed(events)
    if chance.random() < 0.9:
        data = damaged(chance, data)
    for extension in (None, native):
        packets, run = Packets(data), EventRun()
        run.offset = 4
        builder = IndexBuilder(FileIndex(), GtidHistory(GtidSet.empty("mysql")))
        builder.boundary.checksum = len(data) % 2 == 0
        with running(extension):
            try:
                run.cut(packets, builder)
                failure = ""
            except DMError as error:
                failure = str(error)
        results.append((b"".join(run.parts), run.offset, packets.start, packets.sequence, failure, builder.current()))
    assert results[0] == results[1]


def fuzz_text_rows(chance: random.Random) -> None:
    """Damaged answers to a query."""
    width = chance.randrange(1, 5)
    lengths = (0, 1, 3, 250, 251, 300)
    rows = [
        [None if chance.random() < 0.2 else chance.randbytes(chance.choice(lengths)) for _ in range(width)]
        for _ in range(chance.randrange(12))
    ]
    data = stream(rows)
    if chance.random() < 0.9:
        data = damaged(chance, data)
    with contextlib.suppress(pymysql.err.Error):
        drip = chance.choice((1, 7, 300, 5000))
        read(data, drip, width, chance.randrange(1, 20), chance.randrange(1, 2000), ends=True)


def fuzz_local_data(native: ModuleType, chance: random.Random) -> None:
    """Columns whose places are anywhere: an error, or what they say."""
    rows, values = chance.randrange(1, 20), chance.randbytes(chance.randrange(60))
    columns = []
    for _ in range(chance.randrange(1, 4)):
        places = sorted(chance.randrange(len(values) + 1) for _ in range(rows + 1))
        if chance.random() < 0.4:
            places[chance.randrange(rows + 1)] = chance.randrange(-(1 << 31), 1 << 31)
        offsets = struct.pack(f"<{rows + 1}i", *places)[: chance.choice((None, None, -1, 3))]
        valid = chance.choice((None, chance.randbytes((rows + 7) // 8), chance.randbytes(rows // 8)))
        columns.append((valid, offsets, values, chance.choice((0, 0, 1, -1, 1 << 40))))
    with contextlib.suppress(ValueError):
        at = 0
        while at < rows:
            _, at = native.local_data(tuple(columns), at, rows, chance.randrange(200))


def fuzz_transactions(native: ModuleType, flavor: Flavor, directory: Path, chance: random.Random) -> None:
    """Damaged streams of transactions."""
    agree(native, flavor, directory, chance, Mutator(flavor, chance.randrange(1 << 32)))


def main() -> None:
    """Fuzz everything, the same for the same seed."""
    native, seed, count = loaded(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    hand_over(native)
    accelerator._native = native  # what every test helper takes from here on
    chance = random.Random(seed)
    for number in range(count):
        fuzz_rows(native, seed + number)
        fuzz_literals(native, chance)
        compare(native, seed + number, damage=True)
        fuzz_batches(native, chance)
        placing_at_random.agree(native, chance)
        placing_at_random.agree_on_runs(native, chance)
        placing_at_random.give_nonsense(native, chance)
        fuzz_json(native, chance)
        fuzz_cuts(native, chance)
        fuzz_packets(native, chance)
        fuzz_frames(native, chance)
        fuzz_text_rows(chance)
        fuzz_local_data(native, chance)
        size = chance.randrange(300)
        native.crc32(chance.randbytes(size))
        places = sorted(chance.randrange(-2, 40) for _ in range(chance.randrange(9)))
        texts = bytes(chance.choices(b'"\\{1-e:', k=30))
        with contextlib.suppress(ValueError):
            native.json_numbers(struct.pack(f"<{len(places)}i", *places), texts, chance.randrange(-1, 9))
    assert compiled() is native
    flavors: tuple[Flavor, ...] = ("mysql", "mariadb")
    for number in range(count // 20):
        fuzz_transactions(native, flavors[number % 2], Path("unused"), chance)
    with running(native):
        for flavor in flavors:
            Mutator(flavor, seed).run(count)
    print(f"fuzzed {count} times from {seed}")


if __name__ == "__main__":
    main()
