"""What a reader sees before scrolling, in a real browser: at both widths, light and dark. A picture of each is kept."""

from __future__ import annotations

import dataclasses

import pytest

from leakscope.jobs import render as render_job
from leakscope.renderers import render
from tests.jobs.test_render import job

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


@pytest.mark.parametrize(
    "name, html, chart",
    [
        ("job", render_job(job(4, 2), "html"), ".heat svg.chart"),
        ("gpu", render(dataclasses.replace(FULL, timeline=None), "html"), "#devices canvas"),
    ],
    ids=["job", "gpu"],
)
@pytest.mark.parametrize("width, height", SIZES)
def test_ranks_and_a_gpu_alone_have_their_chart_there_too(browser, tmp_path, name, html, chart, width, height):
    with opened(browser, tmp_path, html, viewport={"width": width, "height": height}) as page:
        page.locator(chart).first.wait_for()
        keep(page, f"{name}-first-{width}-light")
        for seen in ("h1", ".answer .meant", ".answer .held", ".answer .remedy li", chart):
            box = page.locator(seen).first.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height, seen


def test_the_line_to_edit_is_not_cut(browser, tmp_path):
    """However long it is: it goes on below, and no wider than what is beside it."""
    (excerpt,) = FULL.excerpts[:1]
    lines = [line + " + more(of, what, stands, there)" * 3 for line in excerpt.lines]
    html = render(dataclasses.replace(FULL, excerpts=[dataclasses.replace(excerpt, lines=lines)]), "html")
    with opened(browser, tmp_path, html, viewport={"width": 1280, "height": 900}) as page:
        widths = "(line) => [line.scrollWidth, line.clientWidth, line.scrollHeight, line.clientHeight]"
        needed, there, high, shown = page.locator(".answer .meant code").first.evaluate(widths)
        assert needed <= there and high <= shown
