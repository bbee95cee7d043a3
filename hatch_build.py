"""The package's build: the C extension goes into the wheel, or into the tree of an editable one, where it can."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AcceleratorHook(BuildHookInterface):
    """Builds dm.accelerator's extension."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it in place; a wheel without it is one for every platform."""
        sys.path.insert(0, self.root)
        try:
            from dm.accelerator.build import SOURCES, NotBuilt, build
        finally:
            sys.path.remove(self.root)
        try:
            made = build()
        except NotBuilt as why:
            self.app.display_warning(f"without the compiled accelerator: {why}")
            return
        if version != "editable":
            build_data["force_include"][str(made)] = str(Path("dm", SOURCES.name, made.name))
        build_data["pure_python"] = False
        build_data["infer_tag"] = True
