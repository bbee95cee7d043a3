"""A source or task file written from values: its text says just these values when it is read."""

from __future__ import annotations

import re
from collections.abc import Mapping
from io import StringIO
from typing import Final

from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

_BREAKS: Final = re.compile("[\x85\u2028\u2029]")


class _Writer(SafeRepresenter):
    """Quotes a text with a line break of Unicode so that it comes back: ruamel's single quotes add blanks to those."""

    def quoted(self, text: str) -> ScalarNode:
        style = '"' if _BREAKS.search(text) else None
        return self.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Writer.add_representer(str, _Writer.quoted)


def as_yaml(content: Mapping[str, object]) -> str:
    """A file's text, its keys in the order in which they come."""
    yaml, written = YAML(typ="safe", pure=True), StringIO()
    yaml.Representer = _Writer
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # its class says None only
    yaml.width = 1 << 20  # GTID sets are long
    yaml.dump(dict(content), written)
    return written.getvalue()
