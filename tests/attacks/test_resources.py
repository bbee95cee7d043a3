"""A few bytes that are made to cost gigabytes or minutes are refused, or read at the cost of their length.

Each attack runs in a process whose memory and CPU the kernel bounds far below what the attack asks for.
"""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.chaos

MEMORY = 1 << 30
CPU_SECONDS = 120


def bounded() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_SECONDS, CPU_SECONDS))


def said(program: str, *arguments: str) -> str:
    """What the program prints in a process of its own; the name of the DMError that ends it, where one does."""
    head, tail = (
        "import sys\nfrom dm.errors import DMError\ntry:\n",
        "\nexcept DMError as error:\n    print(error.name)\n",
    )
    done = subprocess.run(
        [sys.executable, "-c", head + _indented(program) + tail, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        preexec_fn=bounded,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout.strip()


def _indented(program: str) -> str:
    return "\n".join(f"    {line}" for line in program.strip().splitlines())


_READ_DUMP = """
import pathlib
from dm.dumpfiles.storage import LocalStorage
from dm.loader.foreign_dump import read_foreign_dump
from dm.mysql.sql.context import SourceContext
read_foreign_dump(LocalStorage(pathlib.Path(sys.argv[1])), "t", "s", SourceContext("mysql", 90700, ""), lambda _: True)
"""


@pytest.mark.parametrize("metadata", ["9 GiB", "a pipe", "a device"])
def test_a_dump_whose_metadata_has_no_end(metadata: str, tmp_path: Path) -> None:
    path = tmp_path / "metadata"
    if metadata == "a pipe":
        subprocess.run(["mkfifo", path], check=True)
    elif metadata == "a device":
        path.symlink_to("/dev/zero")
    else:
        with path.open("wb") as file:
            file.truncate(9 << 30)
    assert said(_READ_DUMP, str(tmp_path)) == "dump-not-understood"


_READ_FILE = """
import pathlib
from dm.dumpfiles.storage import LocalStorage
from dm.loader.sql_source import SqlSource, opened
place = pathlib.Path(sys.argv[1])
with opened(LocalStorage(place.parent), place.name) as read:
    print(len(list(SqlSource(read, place.name, 1 << 26))))
"""


def test_a_file_that_unpacks_to_gigabytes(tmp_path: Path) -> None:
    import zstandard

    path = tmp_path / "bomb.sql.zst"
    with path.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        for _ in range(2700):
            packed.write(bytes(1 << 20))
    assert path.stat().st_size < 1 << 20
    assert said(_READ_FILE, str(path)) == "load-statement-too-large"


def test_a_file_of_very_many_statements(tmp_path: Path) -> None:
    path = tmp_path / "many.sql"
    path.write_bytes(b"a;" * 2_000_000)
    assert said(_READ_FILE, str(path)) == "2000000"


_UNPACK = """
import struct
import zstandard
from dm.mysql.binlog.compression import TransactionPayload
size = (1 << 30) - 19
packer = zstandard.ZstdCompressor().compressobj()
parts = [packer.compress(struct.pack("<IBIIIH", 0, 30, 1, 19 + size, 0, 0))]
for _ in range(size >> 20):
    parts.append(packer.compress(bytes(1 << 20)))
data = b"".join([*parts, packer.compress(bytes(size % (1 << 20))), packer.flush()])
assert len(data) < 1 << 17
for event in TransactionPayload(0, 19 + size, data, 0).events():
    print(len(event.data))
"""


def test_a_transaction_of_kilobytes_that_unpacks_to_a_gigabyte() -> None:
    assert said(_UNPACK) == "event-unpacks-too-large"


_GTIDS = """
from dm.gtid import GtidSet
uuid = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
ours, theirs = (GtidSet.parse(f"{uuid}:" + ":".join(map(str, range(at, 800_000, 4)))) for at in (1, 3))
print(ours - theirs == ours, ours >= theirs)
"""

_ALTER = """
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.split import split
text = "ALTER TABLE t " + ", ".join(f"ADD COLUMN c{at} INT" for at in range(20_000))
print(len(split(text, SourceContext("mysql", 90700, "s"))))
"""


def test_sets_of_gtids_in_very_many_fragments() -> None:
    assert said(_GTIDS) == "True False"


def test_a_statement_of_very_many_operations() -> None:
    assert said(_ALTER) == "1"


_COMMENT = """
import resource
from dm.mysql.sql.context import SourceContext
from dm.mysql.sql.piece import Piece
resource.setrlimit(resource.RLIMIT_CPU, (12, 12))  # it took 15 s on a machine of today
dashes = "-" * (1 << 20)
for text in (f"/* {dashes} */ ALTER TABLE t ADD c INT", f"ALTER TABLE t ADD c INT {dashes}",
             f"ALTER TABLE t ADD c INT COMMENT '{dashes}'"):
    try:
        print(len(Piece.of(text, SourceContext("mysql", 90700, "s")).operations))
    except DMError as error:
        print(error.name)
"""


def test_a_comment_of_a_mebibyte_of_dashes() -> None:
    assert said(_COMMENT).splitlines()[0::2] == ["1", "1"]
