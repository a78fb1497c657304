"""A browser to look at pages with: by Playwright, with the Chromium of the machine. Skips where either is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from .test_html_browser import CHROMIUM

PICTURES = Path(__file__).parents[2] / "build" / "pictures"  # of every view, from the last run
SIZES = [(1280, 900), (390, 844)]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Any, folder: Path, html: str, **context: Any) -> Iterator[Any]:
    """The page as a reader has it; whatever the browser complained about fails the test at the end."""
    file = folder / "page.html"
    file.write_text(html, encoding="utf-8")
    page = browser.new_page(**context)
    page.set_default_timeout(60_000)
    faults: list[str] = []
    page.on("pageerror", lambda fault: faults.append(str(fault)))
    page.on("console", lambda said: faults.append(said.text))
    page.goto(file.as_uri())
    yield page
    page.close()
    assert not faults


def keep(page: Any, name: str) -> None:
    """A picture of what the window shows."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / f"{name}.png")
