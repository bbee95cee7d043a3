"""Checks of the servers' versions: whether the source's was tried, and the target's can hold the progress tables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from dm.flavor import Flavor
from dm.sql.server_version import version_number
from dm.task.precheck.context import Answers, Context
from dm.task.precheck.result import CheckResult
from dm.upstream.facts import ServerFacts

_OLDEST: Final[dict[Flavor, int]] = {"mysql": 50600, "mariadb": 100100}
_NEWEST_MYSQL: Final = 90800
# The type JSON came with MySQL 5.7.8 and, as another name of LONGTEXT, with MariaDB 10.2.7 (MDEV-9144).
_JSON_SINCE: Final[dict[Flavor, str]] = {"mysql": "5.7.8", "mariadb": "10.2.7"}


def of_source(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """Whether the source is of a version this program knows."""
    yield source_finding(context.source.facts, answers)


def source_finding(facts: ServerFacts, answers: Answers) -> CheckResult:
    """The same, of the source's facts alone."""
    said = f"{facts.base_flavor} {facts.version_text}"
    if never_tried(facts):
        return answers.warning(f"{said} was never tried", "compare the data after the first load")
    return answers.success(said)


def of_target(context: Context, answers: Answers) -> Iterator[CheckResult]:
    """A failure where the target is too old; nothing else."""
    yield from target_findings(context.target.facts, answers)


def target_findings(facts: ServerFacts, answers: Answers) -> Iterator[CheckResult]:
    """The same, of the target's facts alone."""
    if too_old_a_target(facts):
        yield answers.failure(
            f"{facts.base_flavor} {facts.version_text} has no type JSON, which the progress tables need",
            f"take a target of {facts.base_flavor} {_JSON_SINCE[facts.flavor]} or later",
        )


def never_tried(facts: ServerFacts) -> bool:
    """Whether no server of that age was ever a source."""
    return facts.version < _OLDEST[facts.flavor] or (facts.flavor == "mysql" and facts.version >= _NEWEST_MYSQL)


def too_old_a_target(facts: ServerFacts) -> bool:
    """Whether the progress tables can't be created there."""
    return facts.version < version_number(_JSON_SINCE[facts.flavor])
