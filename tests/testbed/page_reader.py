"""The page of a daemon as a browser gets it that has logged in, without the browser."""

from __future__ import annotations

import re
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx


class PageReader:
    """Logs in with a token, at the port that the daemon's log names last."""

    def __init__(self, log: Path, token: str) -> None:
        address = re.findall(r'"listen": "([^"]+)"', log.read_text(encoding="utf-8"))[-1]
        self._client = httpx.Client(base_url=f"http://{address}", follow_redirects=True, timeout=60)
        origin = {"Origin": f"http://{address}"}
        answer = self._client.post("/page/login", data={"token": token}, headers=origin)
        assert answer.status_code == 200, answer.text
        assert "/page/login" not in str(answer.url), answer.text

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._client.close()

    def read(self, path: str) -> str:
        """The HTML of a page, which must be there."""
        answer = self._client.get(f"/page/{path}")
        assert answer.status_code == 200, (path, answer.status_code, answer.text[:500])
        return answer.text
