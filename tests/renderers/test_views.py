"""Every view in a real browser: drawn, pointed at, zoomed, printed, at both widths, light, dark and without scripts.

A picture of each is kept in ``build/pictures``.
"""

from __future__ import annotations

import pytest

from leakscope.comparing import render as render_comparison
from leakscope.jobs import render as render_job
from leakscope.renderers import render
from tests.comparing.test_page import BETTER, HISTORY
from tests.jobs.test_render import job

from .browsers import SIZES, browser, keep, opened
from .reports import FULL
from .test_html import wave
from .test_html_browser import needs_chromium

__all__ = ["browser"]  # a fixture
pytestmark = [pytest.mark.live, needs_chromium]
PAGES = {
    "report": render(FULL, "html"),
    "compare": render_comparison(BETTER, "html"),
    "history": render_comparison(HISTORY, "html"),
    "job": render_job(job(4, 2), "html"),
}


def near(page, place: str, drawn: str):
    """What is drawn at a place as a reader comes near it."""
    page.locator(place).first.evaluate("(element) => element.scrollIntoView()")
    found = page.locator(drawn).first
    found.wait_for()
    return found


def axe(page) -> list[str]:
    source = pytest.importorskip("axe_playwright_python.base", reason="axe is not installed").AXE_SCRIPT
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    page.evaluate(source)
    found = page.evaluate("axe.run().then((found) => found.violations)")
    return [f"{one['id']}: {one['nodes'][0]['html'][:200]}" for one in found]


@pytest.mark.parametrize(
    "name, width, height, scheme",
    [
        *(("report", *size, scheme) for size in SIZES for scheme in ("light", "dark")),
        *(
            (name, *size, scheme)
            for name in ("compare", "history", "job")
            for size, scheme in zip(SIZES, ("light", "dark"))
        ),
    ],
)
def test_every_view_is_drawn_and_axe_finds_no_fault(browser, tmp_path, name, width, height, scheme):
    size = {"width": width, "height": height}
    with opened(browser, tmp_path, PAGES[name], viewport=size, color_scheme=scheme, bypass_csp=True) as page:
        for section in page.locator("section[id]").all():
            section.evaluate("(element) => element.scrollIntoView()")
            for plot in section.locator(".plot").all():
                plot.evaluate("(element) => element.scrollIntoView()")
                plot.locator("canvas").wait_for()
            section.evaluate("(element) => element.scrollIntoView()")
            keep(page, f"{name}-{section.get_attribute('id')}-{width}-{scheme}")
        plots = page.locator(".plot").count()
        assert (
            page.locator(".plot canvas").count() == plots == {"report": 5, "compare": 1, "history": 3, "job": 1}[name]
        )
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert not axe(page)


def test_the_chart_of_the_first_screen_does_not_wait_for_the_rest(browser, tmp_path):
    with opened(browser, tmp_path, render(wave(1700, 13), "html")) as page:
        drawn = "performance.getEntriesByName('timeline drawn')[0].startTime"
        read = "performance.getEntriesByType('navigation')[0].domInteractive"
        assert page.evaluate(drawn) < page.evaluate(read)
        assert not page.locator(".icicle .box").count()


def test_the_first_chart_needs_no_intl(browser, tmp_path):
    """A browser takes longer to load it than to draw the chart."""
    page = browser.new_page()
    page.add_init_script(
        "window.asked = []; for (const name of ['NumberFormat', 'DateTimeFormat']) Intl[name] = () => asked.push(name);"
        "Number.prototype.toLocaleString = () => asked.push('toLocaleString');"
    )
    file = tmp_path / "page.html"
    file.write_text(PAGES["report"], encoding="utf-8")
    page.goto(file.as_uri())
    page.locator("#timeline canvas").wait_for()
    assert "step 5,000" in page.locator("#timeline .readout").inner_text()
    assert page.evaluate("asked") == []
    page.close()


def test_who_follows_a_link_into_the_page_comes_to_the_place(browser, tmp_path):
    file = tmp_path / "page.html"
    file.write_text(PAGES["report"], encoding="utf-8")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(f"{file.as_uri()}#finding-2")
    page.locator("#finding-2").wait_for()
    page.wait_for_function("document.getElementById('finding-2').getBoundingClientRect().top < 900")
    page.close()


def test_a_chart_is_zoomed_by_drawing_over_it_and_by_its_buttons(browser, tmp_path):
    with opened(browser, tmp_path, PAGES["report"], viewport={"width": 1280, "height": 900}) as page:
        plot = near(page, "#timeline", "#timeline .u-over")
        box = plot.bounding_box()
        left, middle, y = box["x"] + 2, box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

        def at_the_left_edge() -> str:
            page.mouse.move(left, y)
            return page.locator("#timeline .readout").inner_text()

        assert "· 0.0 s" in at_the_left_edge()
        page.mouse.move(middle, y)
        page.mouse.down()
        page.mouse.move(middle + 200, y, steps=4)
        page.mouse.up()
        assert "· 20.0 s" in at_the_left_edge()
        page.locator("#timeline [data-zoom=all]").click()
        assert "· 0.0 s" in at_the_left_edge()


def test_a_lap_is_found_by_the_pointer_and_by_the_keyboard(browser, tmp_path):
    with opened(browser, tmp_path, PAGES["report"], viewport={"width": 1280, "height": 900}) as page:
        plot = near(page, "#laps", "#laps .plot .u-over")
        box = plot.bounding_box()
        readout = page.locator("#laps .readout").first
        assert "train 12, from step 1200: 1006 MiB" in readout.inner_text()
        page.locator("#laps .plot").first.focus()
        page.keyboard.press("ArrowDown")
        assert "train 11, from step 1100: 986 MiB" in readout.inner_text()
        page.mouse.move(box["x"] + 1, box["y"] + box["height"] * 0.96)
        assert "train 1, from step 100: 720 MiB" in readout.inner_text()
        tip = page.locator("#laps .tip").first
        assert tip.is_visible() and "train 1, from step 100" in tip.inner_text()


def test_the_heap_compares_two_moments_and_is_walked_by_click_search_and_from_a_finding(browser, tmp_path):
    with opened(browser, tmp_path, PAGES["report"], viewport={"width": 1280, "height": 900}) as page:
        near(page, ".heap", ".icicle .box")
        trail = page.locator(".trail")
        trainer = page.locator('.icicle [aria-label^="main() trainer"]')
        assert trail.inner_text() == "train.py[4242]: 800 MiB, +480 MiB"
        assert "grew-much" in trainer.get_attribute("class")
        page.select_option("[data-take=base]", "1")
        assert "level" in trainer.get_attribute("class")
        assert trail.inner_text() == "train.py[4242]: 800 MiB, 0 B"
        page.select_option("[data-take=shown]", "0")
        assert "shrank" in trainer.get_attribute("class")
        page.select_option("[data-take=shown]", "1")
        page.locator('.icicle [aria-label^="main() config"]').click()
        assert trail.inner_text() == "train.py[4242] › objects › main() config: 70.0 MiB, 0 B"
        page.locator(".icicle .box").first.click()
        assert trail.inner_text().startswith("train.py[4242] › objects: 680 MiB")
        page.locator("[type=search]").fill("history")
        assert trail.inner_text().endswith("1 found")
        page.locator("[type=search]").press("Enter")
        assert "main() trainer › .history" in trail.inner_text()
        page.locator("[type=search]").fill("")
        page.locator(".icicle .box").first.click()
        page.locator(".held a").click()
        assert trail.inner_text() == "train.py[4242] › objects › main() trainer › .history › [*]: 569 MiB, 0 B"
        assert trail.bounding_box()["y"] < 900


def test_a_holder_over_time_leads_to_its_finding(browser, tmp_path):
    with opened(browser, tmp_path, PAGES["report"], viewport={"width": 1280, "height": 900}) as page:
        near(page, "[data-plot=holders-0]", "[data-plot=holders-0] canvas")
        legend = page.locator("[data-plot=holders-0] .legend")
        assert "main() trainer.history[*]\n569 MiB" in legend.inner_text()
        legend.locator("a").click()
        assert page.url.endswith("#finding-1")
        assert page.locator("#finding-1").bounding_box()["y"] < 900


@pytest.mark.parametrize("name", PAGES)
def test_on_paper_and_without_scripts_each_chart_is_a_picture(browser, tmp_path, name):
    def pictures(page) -> list[bool]:
        return [chart.is_visible() for chart in page.locator("figure.static svg.chart, figure.static svg.boxes").all()]

    with opened(browser, tmp_path, PAGES[name], java_script_enabled=False) as page:
        without = pictures(page)
        assert without and all(without)
        assert not page.locator(".interactive").first.is_visible()
    with opened(browser, tmp_path, PAGES[name]) as page:
        page.emulate_media(media="print")
        assert pictures(page) == without
        assert not page.locator(".interactive").first.is_visible()
        page.set_viewport_size({"width": 240, "height": 844})  # narrower than any line of source
        edges = "(all) => all.map((one) => one.getBoundingClientRect().right)"
        boxes, lines = (page.locator(place).evaluate_all(edges) for place in (".source", ".source code"))
        assert max(lines, default=0) <= max(boxes, default=0) + 1, "source runs over what is beside it"
        page.emulate_media(media=None)
        assert page.pdf(path=tmp_path / "page.pdf").startswith(b"%PDF")
