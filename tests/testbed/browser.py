"""Debian's Chromium, driven by playwright: a browser for a test, and what it must not do."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Request, sync_playwright

_PROGRAM = "chromium"  # scripts/install.sh /usr/bin/chromium:chromium puts it there
_PATIENCE_MILLISECONDS = 60_000


@contextmanager
def chromium() -> Iterator[Browser]:
    """The browser; skips the test where it is not installed."""
    program = shutil.which(_PROGRAM)
    if program is None:
        pytest.skip("Debian's package chromium is not installed: scripts/install.sh /usr/bin/chromium:chromium")
    with sync_playwright() as play:
        # Root runs it in CI, where Chromium's sandbox refuses to; the pages are this project's own.
        switches = ["--no-sandbox"] if os.geteuid() == 0 else []
        browser = play.chromium.launch(executable_path=program, args=[*switches, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Watched:
    """A page of a fresh context, with all that it asked for and all that it complained of."""

    def __init__(self, browser: Browser, **options: Any) -> None:
        self.context: BrowserContext = browser.new_context(**options)
        self.context.set_default_timeout(_PATIENCE_MILLISECONDS)
        self.page: Page = self.context.new_page()
        self.hosts: set[str] = set()
        self.complaints: list[str] = []
        self.page.on("request", self._asked)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        self.page.on("dialog", self._dialog)

    def _dialog(self, dialog: Dialog) -> None:
        self.complaints.append(dialog.message)
        dialog.dismiss()

    def _asked(self, request: Request) -> None:
        self.hosts.add(urlsplit(request.url).netloc)

    def log_in(self, url: str, token: str) -> None:
        """As a person does, by the keyboard."""
        self.page.goto(url)
        self.page.wait_for_selector("#token:focus")
        self.page.keyboard.type(token)
        self.page.keyboard.press("Enter")
        self.page.wait_for_selector("nav")

    def overflows(self) -> int:
        """Pixels by which the page is wider than the window."""
        wide: int = self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        return wide

    def close(self) -> None:
        self.context.close()
