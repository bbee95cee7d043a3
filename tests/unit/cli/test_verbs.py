"""The table of verbs: its lines say what the verbs' modules say."""

from __future__ import annotations

import pytest
from typer.core import TyperCommand

from dm.cli.verbs import VERBS, Verb, built


@pytest.mark.parametrize("verb", VERBS, ids=lambda verb: verb.name)
def test_a_line_says_what_the_verb_says_of_itself(verb: Verb) -> None:
    listed, itself = TyperCommand(verb.name, help=verb.summary, rich_markup_mode=None), built(verb)
    assert itself.name == verb.name
    assert itself.get_short_help_str(1000) == verb.summary
    for width in range(20, 200):
        assert listed.get_short_help_str(width) == itself.get_short_help_str(width)


def test_each_verb_is_there_once() -> None:
    names = [verb.name for verb in VERBS]
    assert len(names) == len(set(names))
