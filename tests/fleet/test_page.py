"""The page of a fleet in a real browser: drawn, pointed at, at both widths, light, dark and without scripts."""

from __future__ import annotations

import pytest

from leakscope.fleet import rendering, report
from tests.fleet.fleets import indexed, planted
from tests.renderers.browsers import SIZES, browser, keep, opened
from tests.renderers.test_html_browser import needs_chromium
from tests.renderers.test_views import axe, near

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.live, needs_chromium]


@pytest.fixture(scope="module")
def html() -> str:
    fleet, _ = planted(11, ["leak-on-one-rank", "peak-since-commit"], nodes=10)
    return rendering.render(report.report_of(indexed(fleet, 11)), "html")


@pytest.mark.parametrize("size, scheme", list(zip(SIZES, ("light", "dark"))))
def test_every_section_is_drawn_and_axe_finds_no_fault(browser, tmp_path, html, size, scheme):
    width, height = size
    view = {"width": width, "height": height}
    with opened(browser, tmp_path, html, viewport=view, color_scheme=scheme, bypass_csp=True) as page:
        for seen in ("h1", "header .where", ".maps svg"):
            box = page.locator(seen).first.bounding_box()
            assert box is not None and box["y"] + box["height"] <= height, seen
        near(page, ".plot", ".plot canvas")
        for section in page.locator("section[id]").all():
            section.evaluate("(element) => element.scrollIntoView()")
            keep(page, f"fleet-{section.get_attribute('id')}-{width}-{scheme}")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not axe(page)


def test_the_map_says_which_rank_the_pointer_is_on(browser, tmp_path, html):
    with opened(browser, tmp_path, html, viewport={"width": 1280, "height": 900}) as page:
        rank = near(page, "#heat", ".maps path.area").bounding_box()  # the one that grows
        page.mouse.move(rank["x"] + rank["width"] / 2, rank["y"] + rank["height"] / 2)
        said = page.locator(".maps .said").first.inner_text()
        assert said.startswith("Rank ") and " per hour" in said
        page.mouse.move(2, 2)
        assert not page.locator(".maps .said").first.inner_text()


def test_on_paper_and_without_scripts_maps_and_curves_are_there(browser, tmp_path, html):
    with opened(browser, tmp_path, html, java_script_enabled=False) as page:
        assert page.locator(".maps svg").first.is_visible()
        curves = [chart.is_visible() for chart in page.locator("figure.static svg.chart").all()]
        assert curves and all(curves)
        assert not page.locator(".interactive").first.is_visible()
    with opened(browser, tmp_path, html) as page:
        page.emulate_media(media="print")
        assert page.locator(".maps svg").first.is_visible()
        assert [chart.is_visible() for chart in page.locator("figure.static svg.chart").all()] == curves
        page.emulate_media(media=None)
        assert page.pdf(path=tmp_path / "page.pdf").startswith(b"%PDF")
