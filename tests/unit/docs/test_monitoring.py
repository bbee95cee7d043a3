"""The alert rules and the board: promtool accepts them, each rule fires where it should, all metrics are there."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from dm.demo.installation import cache_directory
from dm.worker.metric_families import FAMILIES
from tests.unit.docs.document import ROOT

MONITORING = ROOT / "monitoring"
RULES: list[dict[str, Any]] = YAML(typ="safe").load((MONITORING / "dm.rules.yml").read_text())["groups"][0]["rules"]
TESTS: list[dict[str, Any]] = YAML(typ="safe").load((MONITORING / "rules_test.yml").read_text())["tests"]
BOARD: dict[str, Any] = json.loads((MONITORING / "dm.grafana.json").read_text())
QUERIES = [target["expr"] for panel in BOARD["panels"] for target in panel.get("targets", ())]


def promtool(*words: str) -> str:
    program = cache_directory() / "prometheus" / "promtool"
    assert program.exists(), "scripts/fetch_programs.sh puts promtool in place"
    done = subprocess.run([program, *words], cwd=MONITORING, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_promtool_accepts_the_rules() -> None:
    assert f"{len(RULES)} rules found" in promtool("check", "rules", "dm.rules.yml")


def test_each_rule_fires_where_it_should_and_none_where_all_is_well() -> None:
    assert [each["name"] for each in TESTS if each["name"].startswith("DM_")] == [rule["alert"] for rule in RULES]
    promtool("test", "rules", "rules_test.yml")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule["alert"]))
def test_a_rule_says_what_is_the_matter_and_what_to_do(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("warning", "critical")
    assert rule["annotations"].keys() == {"summary", "action"}


@pytest.mark.parametrize("file", ["dm.rules.yml", "dm.grafana.json"])
def test_each_metric_that_is_asked_for_is_there(file: str) -> None:
    asked = set(re.findall(r"\b(dm(?:pling)?_\w+|dumpling_\w+)\b(?=[\[{)\s])", _expressions(MONITORING / file)))
    assert len(asked) > 10
    assert asked <= FAMILIES.keys()


def _expressions(file: Path) -> str:
    if file.suffix == ".json":
        return "\n".join(f"{query} " for query in QUERIES)
    return "\n".join(f"{rule['expr']} " for rule in RULES)


def test_the_board_is_one_that_grafana_reads() -> None:
    numbers = [panel["id"] for panel in BOARD["panels"]]
    assert len(numbers) == len({*numbers})
    taken: set[tuple[int, int]] = set()
    for panel in BOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert place["x"] + place["w"] <= 24
        assert not taken & cells, panel["title"]
        taken |= cells
        assert panel["type"] in ("row", "stat", "timeseries")
        assert all(target["datasource"]["uid"] == "${datasource}" for target in panel.get("targets", ()))
    assert {each["name"] for each in BOARD["templating"]["list"]} == {"datasource", "task", "source"}
