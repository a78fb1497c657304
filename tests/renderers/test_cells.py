"""Charts of a notebook in a real browser: several in one document, and without scripts. A picture is kept."""

from __future__ import annotations

import pytest

from leakscope.jupyter import _charts
from leakscope.renderers import plots

from .browsers import browser, keep, opened
from .reports import FULL
from .test_html_browser import needs_chromium
from .test_views import axe

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.live, needs_chromium]


def notebook() -> str:
    """One chart of every kind, one of them twice, as a notebook shows them below each other."""
    described = plots(FULL)
    charts = [_charts.of_plot(plot, "", "") for plot in described.values()]
    charts += [
        _charts.of_ledger(FULL.ledger),
        _charts.of_bill(FULL, "peak"),
        _charts.of_heap(FULL.heap[0], "step"),
        charts[0],
    ]
    cells = "\n".join(chart._repr_mimebundle_()["text/html"] for chart in charts)
    return f'<!doctype html><html lang="en"><title>Notebook</title><main><h1>N</h1><h2>Charts</h2>{cells}</main></html>'


def test_each_chart_of_a_notebook_is_drawn_once_and_axe_finds_no_fault(browser, tmp_path):
    with opened(browser, tmp_path, notebook(), viewport={"width": 1280, "height": 900}) as page:
        for cell in page.locator(".leakscope").all():
            cell.evaluate("(element) => element.scrollIntoView()")
        page.locator(".icicle .box").first.wait_for()
        plots_there = page.locator(".plot").count()
        assert page.locator(".plot canvas").count() == plots_there == len(plots(FULL)) + 1
        assert not page.locator(".picture").first.is_visible(), "the picture stands in for scripts"
        page.locator(".leakscope").last.evaluate("(element) => element.remove()")  # its twin has the same names
        assert not axe(page)
        page.evaluate("scrollTo(0, 0)")
        keep(page, "notebook-charts-1280-light")
        timeline = page.locator(".leakscope").first
        timeline.locator(".u-over").hover()
        assert "MiB" in timeline.locator(".tip").inner_text()


def test_without_scripts_each_chart_of_a_notebook_is_a_picture(browser, tmp_path):
    with opened(browser, tmp_path, notebook(), java_script_enabled=False) as page:
        pictures = page.locator(".picture").all()
        assert len(pictures) == len(plots(FULL)) + 2
        assert all(picture.bounding_box()["height"] > 100 for picture in pictures)
        assert not page.locator(".interactive").first.is_visible()
