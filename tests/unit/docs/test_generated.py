"""Pages that are written from the code are what the code would write now."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from dm.config import SourceConfig, TaskConfig
from dm.config.section import NamedRule, Section
from dm.errors import CATALOGUE
from dm.worker.metric_families import FAMILIES
from scripts import document_api, document_configuration, document_dm_files, document_errors, document_metrics
from tests.testbed import figures
from tests.unit.docs.document import ROOT

# How the program would read a key that the page says is without effect.
READS: Mapping[tuple[str, str], str] = {
    ("SourceConfig", "enable"): r"\b(?:source|config)\.enable\b",
    ("Checker", "check-interval"): r"checker\.check_interval\b",
}


WRITTEN = (
    (document_errors.PAGE, document_errors.page, document_errors.COMMAND),
    (document_configuration.PAGE, document_configuration.page, document_configuration.COMMAND),
    (document_metrics.PAGE, document_metrics.page, document_metrics.COMMAND),
    (document_dm_files.PAGE, document_dm_files.page, document_dm_files.COMMAND),
    (document_api.PAGE, document_api.page, document_api.COMMAND),
)
IDS = ("errors", "configuration", "metrics", "dm-files", "api")


@pytest.mark.parametrize(("page", "write", "command"), WRITTEN, ids=IDS)
def test_page_is_up_to_date(page: Path, write: Callable[[], str], command: str) -> None:
    assert page.read_text(encoding="utf-8") == write(), f"write it anew with: {command}"


def test_every_metric_is_on_its_page() -> None:
    text = document_metrics.PAGE.read_text(encoding="utf-8")
    assert [name for name in FAMILIES if f"| `{name}` |" not in text] == []


def test_every_error_is_on_its_page() -> None:
    text = document_errors.PAGE.read_text(encoding="utf-8")
    assert [name for name, kind in CATALOGUE.items() if f"| {kind.code} | `{name}` |" not in text] == []


def _sections(model: type[Section], found: set[type[Section]]) -> set[type[Section]]:
    """The model and all sections that its fields can hold."""
    if model not in found:
        found.add(model)
        for info in model.model_fields.values():
            for part in re.findall(r"[\w.]+", repr(info.annotation)):
                for other in _all_sections():
                    if part == f"{other.__module__}.{other.__qualname__}":
                        _sections(other, found)
    return found


def _all_sections() -> list[type[Section]]:
    direct = Section.__subclasses__()
    return [*direct, *NamedRule.__subclasses__()]


def test_every_section_of_both_files_has_a_chapter() -> None:
    reached = _sections(SourceConfig, set()) | _sections(TaskConfig, set())
    assert reached == {chapter.model for chapter in document_configuration.CHAPTERS}


def test_every_key_of_every_section_is_explained() -> None:
    for chapter in document_configuration.CHAPTERS:
        assert set(chapter.model.file_keys()) == set(chapter.keys), chapter.title


def test_keys_without_effect_are_warned_of_and_said_to_be() -> None:
    for chapter in document_configuration.CHAPTERS:
        warned = set(chapter.model.without_effect)
        assert warned == {key for key, meaning in chapter.keys.items() if "with a warning" in meaning}, chapter.title


def test_keys_said_to_be_without_effect_are_read_nowhere() -> None:
    said = {
        (chapter.model.__name__, key)
        for chapter in document_configuration.CHAPTERS
        for key, meaning in (("", chapter.text), *chapter.keys.items())
        if document_configuration.UNUSED in meaning
    }
    assert said == set(READS), "a key gained or lost the words: say here how the program would read it"
    sources = {
        path: path.read_text(encoding="utf-8")
        for path in (ROOT / "dm").rglob("*.py")
        if "config" not in path.relative_to(ROOT).parts
    }
    used = {
        key: [str(path.relative_to(ROOT)) for path, text in sources.items() if re.search(pattern, text)]
        for key, pattern in READS.items()
    }
    assert {key: places for key, places in used.items() if places} == {}, "correct the page: these have an effect now"


def test_the_page_on_long_tests_tells_the_last_soak() -> None:
    found = json.loads(figures.PAGE.read_text(encoding="utf-8"))["soak"]
    assert figures.soak_table(found) in figures.CHAPTER.read_text(encoding="utf-8"), "python -m tests.testbed.figures"
