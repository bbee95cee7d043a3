"""What grows beyond its bound is named, and what was there from the beginning is not."""

from __future__ import annotations

from dataclasses import replace

from tests.live.soak.footprint import MIB, Bounds, Footprint, ProcessFootprint

BOUNDS = Bounds(memory_quota=16 * MIB, log_file=MIB, log_files=3, relay=MIB, history=MIB, rest=MIB)
SYNCER, DAEMON = ProcessFootprint(60 * MIB, 12, 20), ProcessFootprint(90 * MIB, 14, 40)
WARM = Footprint({"dm-worker": DAEMON, "sync:t:s": SYNCER}, logs=MIB, relay=MIB, history=MIB, rest=MIB)


def with_syncer(own: int = 60 * MIB, threads: int = 12, descriptors: int = 20) -> Footprint:
    syncer = ProcessFootprint(own, threads, descriptors)
    return Footprint({**WARM.processes, "sync:t:s": syncer}, WARM.logs, WARM.relay, WARM.history, WARM.rest)


def test_what_stays_is_within_its_bounds() -> None:
    assert BOUNDS.broken(WARM, WARM) == []
    assert BOUNDS.broken(WARM, with_syncer(own=SYNCER.own + 16 * MIB, threads=20, descriptors=36)) == []
    assert BOUNDS.broken(WARM, replace(WARM, processes={**WARM.processes, "relay:new": SYNCER})) == []


def test_what_grows_is_named() -> None:
    for grown in (with_syncer(own=77 * MIB), with_syncer(threads=21), with_syncer(descriptors=37)):
        (problem,) = BOUNDS.broken(WARM, grown)
        assert problem.startswith("sync:t:s: ")
    more = {
        "logs": replace(WARM, logs=11 * MIB), "relay": replace(WARM, relay=2 * MIB),
        "history": replace(WARM, history=2 * MIB), "rest": replace(WARM, rest=2 * MIB),
    }  # fmt: skip
    for what, now in more.items():
        (problem,) = BOUNDS.broken(WARM, now)
        assert problem.startswith(f"{what}: ")
