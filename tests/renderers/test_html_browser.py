"""The page in a real browser: it draws, answers the mouse and the keyboard, and breaks no rule of its own policy.

A second script presses the buttons; the policy of the copy under test lets it in by its hash.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from html import unescape

import pytest

from leakscope.renderers import render

from .reports import EMPTY, FULL
from .test_html import hostile, wave

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
needs_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on this machine")
pytestmark = [pytest.mark.live, needs_chromium]
DEADLINE_S = 120
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-dev-shm-usage",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--enable-logging=stderr",
)  # fmt: skip


def browse(tmp_path, html: str, *flags: str) -> tuple[str, list[str]]:
    """The document after its scripts ran, and what the browser had to complain about."""
    page = tmp_path / "page.html"
    page.write_text(html, encoding="utf-8")
    command = [CHROMIUM, *FLAGS, *flags, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=DEADLINE_S)
    except subprocess.TimeoutExpired:
        pytest.skip(f"chromium did not answer within {DEADLINE_S} s")
    if "</html>" not in done.stdout:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    return done.stdout, [line for line in done.stderr.splitlines() if "CONSOLE" in line]


def ask(tmp_path, html: str, script: str) -> dict[str, object]:
    """What ``script`` put into ``seen`` after it acted on the page as a reader would."""
    script = (
        "const seen = {}; const all = (s) => [...document.querySelectorAll(s)]; const one = (s) => all(s)[0];"
        'const press = (key) => one(".plot").dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true}));'
        "const drawn = async () => { for (let i = 0; i < 20; i++) await null; };"  # the chart draws in a microtask
        f'(async () => {{ {script}; document.title = "SEEN" + JSON.stringify(seen); }})();'
    )
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = html.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    html = html.replace("</body>", f"<script>{script}</script></body>")
    dom, complaints = browse(tmp_path, html)
    assert not complaints
    return json.loads(unescape(re.search(r"<title>SEEN(.*?)</title>", dom, re.S)[1]))


def overflow(tmp_path, html: str, width: int) -> int:
    """By how many pixels the page is wider than a window of this width; a frame may be as narrow as a phone."""
    script = 'parent.document.title = "WIDE" + (document.documentElement.scrollWidth - innerWidth)'
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    html = html.replace("script-src '", f"script-src 'sha256-{digest}' '", 1)
    inner = tmp_path / "inner.html"
    inner.write_text(html.replace("</body>", f"<script>{script}</script></body>"), encoding="utf-8")
    frame = f'<!doctype html><iframe src="{inner.name}" width="{width}" height="900"></iframe>'
    dom, _ = browse(tmp_path, frame + "</html>", "--window-size=1400,900", "--allow-file-access-from-files")
    return int(re.search(r"<title>WIDE(-?\d+)", dom)[1])


@pytest.mark.cases(1)
@pytest.mark.parametrize("report", [FULL, EMPTY, hostile(), wave(1700, 13)], ids=["full", "empty", "hostile", "a day"])
def test_the_browser_has_nothing_to_complain_about(tmp_path, report):
    dom, complaints = browse(tmp_path, render(report, "html"))
    assert not complaints
    assert ("<canvas" in dom) == (report.timeline is not None)


def test_a_language_that_intl_refuses_does_no_harm(tmp_path, monkeypatch):
    """Under a POSIX locale Chromium's language is "en-US@posix"."""
    monkeypatch.setenv("LC_ALL", "C")
    dom, complaints = browse(tmp_path, render(FULL, "html"))
    assert not complaints
    assert "<canvas" in dom


def test_the_timeline_switches_hides_and_zooms(tmp_path):
    seen = ask(
        tmp_path,
        render(FULL, "html"),
        """
        const names = () => all("#timeline .legend button").map((b) => b.textContent);
        const readout = () => one(".readout").textContent;
        seen.static_hidden = getComputedStyle(one(".static")).display === "none";
        seen.accounts = names(); seen.at_peak = readout();
        press("Home"); seen.first = readout();
        press("ArrowRight"); seen.second = readout();
        all("#timeline .legend button")[1].click(); await drawn(); seen.without_culprit = readout();
        one('[data-view="1"]').click(); await drawn(); seen.processes = names();
        seen.canvases = all("#timeline canvas").length;
        for (const key of ["+", "+", "-", "0"]) { press(key); await drawn(); }
        one('[data-zoom="in"]').click(); await drawn(); seen.after_zoom = readout();
        """,
    )
    assert seen["static_hidden"]
    culprit = ["Trainer.history (list), extrapolated from 18.0 s on", "Trainer.history (list)"]  # a band of its own
    assert seen["accounts"] == [*culprit, "native", "tensors"]
    assert seen["at_peak"].startswith("842 MiB · 20.0 s · step 5,000")
    assert "worker[4250] was ended by SIGKILL" in seen["at_peak"]
    assert seen["first"].startswith("200 MiB · 0.0 s")
    assert seen["second"].startswith("500 MiB · 10.0 s · step 2,400 · eval begins at step 2,400, 1.0 s")
    assert seen["without_culprit"].startswith("269 MiB")  # 500 MiB without what the culprit held then
    assert seen["processes"] == [*culprit, "train.py[4242]"]
    assert seen["canvases"] == 1
    assert seen["after_zoom"].startswith("500 MiB")


def test_the_heap_compares_any_two_inventories(tmp_path):
    seen = ask(
        tmp_path,
        render(FULL, "html"),
        """
        const cells = (li) => ["code", ".size", ".grown"].map((part) => li.querySelector(part).textContent);
        const tree = () => all(".tree > li").map(cells);
        const choose = (selector, value) => {
            one(selector).value = value;
            one(selector).dispatchEvent(new Event("change"));
        };
        seen.before = tree();
        choose('[data-take="shown"]', "0"); seen.first = tree();
        choose("[data-sort]", "growth"); choose('[data-take="base"]', "1"); seen.backwards = tree();
        """,
    )
    assert seen["before"] == [["main() trainer", "600 MiB", "+550 MiB"], ["main() config", "70.0 MiB", "0 B"]]
    assert seen["first"] == [["main() config", "70.0 MiB", "0 B"], ["main() trainer", "50.0 MiB", "0 B"]]
    assert seen["backwards"] == [["main() config", "70.0 MiB", "0 B"], ["main() trainer", "50.0 MiB", "-550 MiB"]]


@pytest.mark.cases(1)
@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_is_wider_than_the_window(tmp_path, width):
    """The page itself never scrolls sideways, however long the job's names are."""
    assert overflow(tmp_path, render(hostile(), "html"), width) <= 0
