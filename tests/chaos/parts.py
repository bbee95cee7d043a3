"""The parts of `make chaos`, at most an hour each, and which test file belongs to which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Part:
    """Files and folders of tests; one without any is the crash loops of `tests.chaos.run`."""

    name: str
    minutes: int  # an estimate; `docs/chaos-result.json` has what a run took
    paths: tuple[str, ...] = ()


def _syncer(*names: str) -> tuple[str, ...]:
    files = (Path("tests/live/syncer", name) for name in names)
    return tuple(file.with_name(f"test_{file.name}.py").as_posix() for file in files)


# A file belongs to the part with the longest path that leads to it, so a new one is never left out.
PARTS = (
    Part("rest", 40, ("tests",)),
    Part("convergence", 50, _syncer("convergence/convergence", "convergence/convergence_across")),
    Part(
        "deaths",
        40,
        _syncer(
            "convergence/crash_loop",
            "start/fence",
            "xa/xa_chaos",
            *(f"apply/{name}" for name in ("atomic_transactions", "foreign_keys", "replay")),
        ),
    ),
    Part("ddl", 40, ("tests/live/syncer/ddl", *_syncer("errors/operators"))),
    Part("shards", 50, ("tests/live/syncer/shards",)),
    Part("shard-seeds", 60, _syncer("shards/shard_seeds")),
    Part("syncer", 40, ("tests/live/syncer",)),
    Part("branches", 50, ("tests/live/syncer/branches",)),
    Part("branch-errors", 40, _syncer("branches/every_error")),
    Part("relay", 40, ("tests/live/relay",)),
    Part("upstream", 40, ("tests/live/upstream",)),
    Part(
        "proof",
        20,
        (
            *(f"tests/live/{name}" for name in ("diff", "equality", "flashback", "validator")),
            *(f"tests/live/cli/test_{name}.py" for name in ("diff_finds", "diff_resumed", "validate", "validators")),
        ),
    ),
    Part("tasks", 40, ("tests/live/hold", "tests/live/worker", "tests/live/cluster")),
    Part("concurrent-writer", 40, ("tests/spark/test_concurrent_writer.py",)),
    Part("spark", 50, ("tests/spark",)),
    Part(
        "joining",
        40,
        tuple(
            f"tests/spark/test_{name}.py"
            for name in ("reload_table", "added_tables", "joins_killed_in_the_copy", "lag_of_other_tables")
        ),
    ),
    # What a hostile server, file, local user or client tries: each attack ends in a refusal, none succeeds.
    Part("attacks", 20, ("tests/attacks",)),
    # A hundred takeovers (TAKEOVERS); each lasts a lease or two.
    Part("hosts", 60, ("tests/live/cluster/test_takeovers.py",)),
    # Wheels are made, and installed on a Debian that boots systemd.
    Part("packages", 15, ("tests/live/packages",)),
    # An hour of its own length (SOAK_MINUTES), its start and its comparison come on top.
    Part("soak", 60, ("tests/live/soak",)),
    Part("crash-loops", 10),
)


def test_files() -> list[str]:
    """All files of tests."""
    return sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "tests").rglob("test_*.py"))


def owner(file: str) -> Part:
    """The part that a file belongs to."""
    lengths = {len(path): part for part in PARTS for path in part.paths if file == path or file.startswith(f"{path}/")}
    return lengths[max(lengths)]


def files_of(part: Part, files: Iterable[str]) -> list[str]:
    """Those of the files that belong to the part."""
    return [file for file in files if owner(file) is part]


def part_of(asked: str) -> Part:
    """The part with this name or number, counted from 1."""
    for number, part in enumerate(PARTS, 1):
        if asked in (str(number), part.name):
            return part
    raise SystemExit(f"there is no part {asked}; there are 1 to {len(PARTS)}: {', '.join(p.name for p in PARTS)}")
