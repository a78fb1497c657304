"""What a reader sees before scrolling, in a real browser: at both widths, light and dark. A picture of each is kept."""

from __future__ import annotations

import pytest

from leakscope.renderers import render

from .browsers import SIZES, browser, keep, opened
from .reports import FULL
from .test_html_browser import needs_chromium

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.live, needs_chromium]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width, height", SIZES)
def test_the_answer_and_its_chart_need_no_scrolling(browser, tmp_path, width, height, scheme):
    size = {"width": width, "height": height}
    with opened(browser, tmp_path, render(FULL, "html"), viewport=size, color_scheme=scheme) as page:
        page.wait_for_selector("canvas")
        keep(page, f"report-first-{width}-{scheme}")
        for seen in ("h1", ".answer .meant", ".answer .held", ".answer .remedy li", "#timeline canvas"):
            box = page.locator(seen).first.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height, seen
        page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        tip = page.locator("#timeline .tip")
        assert "MiB" in tip.inner_text()
        assert tip.bounding_box()["y"] + tip.bounding_box()["height"] <= height
