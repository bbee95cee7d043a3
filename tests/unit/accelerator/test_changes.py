"""The compiled loop makes the row changes, keys included, that Python makes, and gives them to the same workers."""

from __future__ import annotations

import random
from types import ModuleType

from tests.unit.accelerator.changes_at_random import compare
from tests.unit.accelerator.placing_at_random import agree, agree_on_runs


def test_changes_of_any_table(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    made = sum(compare(native, seed + number, damage=False) for number in range(400))
    assert made > 100, "hardly any was made by the loop"


def test_changes_of_damaged_events(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    for number in range(400):
        compare(native, seed + number, damage=True)


def test_changes_go_to_the_workers_that_each_would_go_to_alone(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(500):
        agree(native, chance)


def test_changes_of_a_run_go_where_those_of_its_transactions_would_go(native: ModuleType) -> None:
    seed = random.SystemRandom().randrange(1 << 32)
    print("seed", seed)
    chance = random.Random(seed)
    for _ in range(500):
        agree_on_runs(native, chance)
