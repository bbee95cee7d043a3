"""The results of a run: JSON, and the table in docs/performance.md, between two marks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.measure import Comparison
from dm.unit import JSON

_DOCS = Path(__file__).resolve().parents[1] / "docs"
RESULT = _DOCS / "performance.json"
PAGE = _DOCS / "performance.md"
BEGIN, END = "<!-- make bench writes from here -->", "<!-- to here -->"


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


def write(comparisons: Sequence[Comparison], conditions: Mapping[str, JSON], result: Path, page: Path) -> None:
    """Store the figures and put the table into the page."""
    found: dict[str, JSON] = {**conditions, "comparisons": [each.to_json() for each in comparisons]}
    result.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    text = page.read_text(encoding="utf-8")
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    if not begun or not ended:
        raise ValueError(f"{page} has no place for the table")
    said = [f"- {name}: {value}" for name, value in conditions.items()]
    body = "\n".join([BEGIN, "", *said, "", *table(comparisons), "", END])
    page.write_text(before + body + after, encoding="utf-8")
