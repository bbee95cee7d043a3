"""Writes docs/openapi.json, the OpenAPI document that dm-worker serves, so that the file can't say anything else.

Run it after a change of verbs or of dm/worker/dm_openapi; a test compares the file with what this would write.
"""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any, Final
from unittest.mock import MagicMock

from dm.worker.api import create_app
from dm.worker.dm_openapi.every import openapi_requests

COMMAND: Final = ".venv/bin/python scripts/document_api.py"
PAGE: Final = Path(__file__).resolve().parents[1] / "docs" / "openapi.json"


def page() -> str:
    """The whole document; it depends on declarations alone, so no work of theirs has to be there."""
    work: Any = defaultdict(MagicMock)
    app = create_app(work, openapi_requests(MagicMock(), work), MagicMock(), MagicMock())
    said = {**app.openapi(), "info": {"title": "dm-worker", "version": "2"}}  # of the API, not of each release
    return json.dumps(said, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
