"""What a reader sees before scrolling, in a real browser: at both widths, light and dark. A picture of each is kept."""

from __future__ import annotations

import pytest

from leakscope.renderers import render

from .reports import FULL
from .test_html_browser import CHROMIUM, needs_chromium

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = [pytest.mark.live, needs_chromium]
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", [(1280, 900), (390, 844)])
def test_the_answer_and_its_chart_need_no_scrolling(tmp_path, width, height, scheme):
    file = tmp_path / "page.html"
    file.write_text(render(FULL, "html"), encoding="utf-8")
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        page = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
        faults = []
        page.on("pageerror", lambda fault: faults.append(str(fault)))
        page.goto(file.as_uri())
        page.wait_for_selector("canvas")
        page.screenshot(path=tmp_path / f"first-{width}-{scheme}.png")
        for seen in ("h1", ".answer .meant", ".answer .held", ".answer .remedy li", "#timeline canvas"):
            box = page.locator(seen).first.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height, seen
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator(".tip")
        assert "MiB" in tip.inner_text()
        assert tip.bounding_box()["y"] + tip.bounding_box()["height"] <= height
        browser.close()
        assert not faults
