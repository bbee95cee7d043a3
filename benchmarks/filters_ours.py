"""`python -m benchmarks.filters_ours`: a run of the sync unit; the target evaluates all expression filters."""

from __future__ import annotations

from typing import Never

from benchmarks import catch_up_ours
from dm.rules import row_filter
from dm.rules.node import InexactError


def main() -> None:
    """As `benchmarks.catch_up_ours`, without dm's own evaluation."""
    setattr(row_filter, "compile_condition", _not_here)  # noqa: B010  its module does not export it
    catch_up_ours.main()


def _not_here(*_: object) -> Never:
    raise InexactError("measured without")


if __name__ == "__main__":
    main()
