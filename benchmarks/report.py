"""The results of a command: JSON, and its table in docs/performance.md, between two marks of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Comparison
from dm.unit import JSON

_DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = _DOCS / "performance.md"
RESULTS = {"bench": _DOCS / "performance.json", "bench-large": _DOCS / "performance-large.json"}
"""Where the figures of the make targets go that keep them."""


def marks(target: str) -> tuple[str, str]:
    """Between which the page has the table of a make target."""
    return f"<!-- make {target} writes from here -->", f"<!-- make {target} writes to here -->"


def table(comparisons: Sequence[Comparison]) -> list[str]:
    """The lines of the table."""
    lines = [
        "| what | dm | peer | result | range | goal | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for each in comparisons:
        low, high = each.range
        if each.judged_by != "difference":
            at_most = "at most " if each.judged_by == "limit" else ""
            result, span, goal = f"{each.result:.2f}x", f"{low:.2f} to {high:.2f}", f"{at_most}{each.goal:g}x"
        else:
            unit = each.ours.unit
            result, span, goal = f"{each.result:+.2f} {unit}", f"{low:+.2f} to {high:+.2f}", f"+{each.goal:g} {unit}"
        lines.append(
            f"| {each.what} | {_figure(each.ours.median)} {each.ours.unit} | {_figure(each.peer.median)}"
            f" ({each.peer.name}) | {result} | {span} | {goal} | {'yes' if each.reached else 'no'} |"
        )
    return lines


def _figure(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def write(
    comparisons: Sequence[Comparison], conditions: Mapping[str, JSON], target: str, result: Path, page: Path
) -> None:
    """Store the figures of a make target and put its table into the page."""
    found: dict[str, JSON] = {**conditions, "comparisons": [each.to_json() for each in comparisons]}
    text = page.read_text(encoding="utf-8")
    begin, end = marks(target)
    before, begun, rest = text.partition(begin)
    _, ended, after = rest.partition(end)
    if not begun or not ended:
        raise ValueError(f"{page} has no place for the table of {target}")
    said = [f"- {name}: {value}" for name, value in conditions.items()]
    result.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    page.write_text(before + "\n".join([begin, "", *said, "", *table(comparisons), "", end]) + after, encoding="utf-8")
