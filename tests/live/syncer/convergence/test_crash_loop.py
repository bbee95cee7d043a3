"""A sample of the crash loop for every change; `make chaos` runs it at length.

A seed that failed is in the message; DM_SEED=<seed> draws the same lives again.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dm.mysql.dialect import Flavor
from tests.testbed.crash_loop import CrashLoop, Kind
from tests.testbed.fixtures import SchemaFactory
from tests.testbed.loop_result import draw_seed
from tests.testbed.park import ServerPark
from tests.testbed.without import WITHOUT

pytestmark = [pytest.mark.live, pytest.mark.timeout(480)]

LIVES = 5
MOST_LIVES = 15
MOST_LIVES_OF_SAMPLE = 45  # it ends once it has hurt, which chance decides
# A row that is not there, or there already, or of another structure, or another one than in the source; nothing else.
DAMAGE = re.compile(r"code=36921|code=11126|code=36924|RawCause: 1054 |DIFFERENT")


@pytest.mark.parametrize(
    ("flavor", "relay", "memory_quota"),
    [
        ("mysql", False, 128 << 20),
        ("mariadb", True, 128 << 20),
        # No more than one row event fits: all others go through the spool.
        pytest.param("mysql", True, 2000, marks=pytest.mark.chaos),
        pytest.param("mariadb", False, 2000, marks=pytest.mark.chaos),
    ],
)
@pytest.mark.ci_sample(1)
def test_rows_are_equal_after_deaths_at_drawn_points(
    park: ServerPark, schema: SchemaFactory, tmp_path: Path, flavor: Flavor, relay: bool, memory_quota: int
) -> None:
    upstream, target = park.shared(flavor, "upstream-1"), park.shared(flavor, "target")
    seed = draw_seed(flavor, relay)
    name = schema(upstream, target)
    with CrashLoop(upstream, target, name, tmp_path, seed=seed, relay=relay, memory_quota=memory_quota) as loop:
        result = loop.round(LIVES)
        while result.mild and result.identical and result.lives < MOST_LIVES_OF_SAMPLE:
            loop.round(5)  # it has not hurt yet; a window of another death is before all lives of a round but the first
    assert result.identical, f"seed {seed}: {result.problem}"
    assert not result.mild, f"seed {seed}: {result.mild}"


# What takes long until it hurts is for the long runs.
@pytest.mark.parametrize(
    "safeguard",
    [pytest.param(each, marks=pytest.mark.chaos) if each in ("epoch", "bound") else each for each in WITHOUT],
)
def test_the_loop_notices_when_a_safeguard_is_taken_out(
    park: ServerPark, schema: SchemaFactory, tmp_path: Path, safeguard: str
) -> None:
    upstream, target = park.shared("mariadb", "upstream-1"), park.shared("mariadb", "target")
    seed = draw_seed(safeguard)
    agenda: list[Kind] = ["freeze", "inside"] if safeguard == "epoch" else ["inside"]
    with CrashLoop(
        upstream,
        target,
        schema(upstream, target),
        tmp_path,
        seed=seed,
        relay=False,
        without=safeguard,
        agenda=agenda * MOST_LIVES,
    ) as loop:
        result = loop.round(len(agenda))
        while result.identical and result.lives < MOST_LIVES:
            loop.round(len(agenda))
    assert DAMAGE.search(result.problem), f"seed {seed}, {result.lives} lives: {result.problem or 'nothing noticed'}"
