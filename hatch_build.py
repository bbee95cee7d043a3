"""The package's build: the C extension goes into the wheel, or into the tree of an editable one, where it can.

Manual pages and the completion of shells are made from the declarations of verbs and options, and go below share/.
"""

from __future__ import annotations

import shutil
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class AcceleratorHook(BuildHookInterface):
    """Builds dm.accelerator's extension and the manual."""

    PLUGIN_NAME = "custom"
    _manual = ""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build the extension in place; a wheel without it is one for every platform."""
        sys.path.insert(0, self.root)
        try:
            from dm.accelerator.build import SOURCES, NotBuilt, build

            if version != "editable":
                self._add_manual(build_data)
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

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the wheel."""
        if self._manual:
            shutil.rmtree(self._manual)

    def _add_manual(self, build_data: dict[str, Any]) -> None:
        found = spec_from_file_location("document_manual", Path(self.root, "scripts", "document_manual.py"))
        assert found is not None
        assert found.loader is not None
        manual = module_from_spec(found)
        found.loader.exec_module(manual)
        self._manual = mkdtemp()
        files = manual.write(Path(self._manual), self.metadata.version)
        build_data["shared_data"] |= {str(file): f"share/{name}" for name, file in files.items()}
