"""Pictures of README and docs/: pages of the example, a terminal in which its leak is found and fixed, a live screen.

Those of the terminal and of the heap are made by ``make docs``, from what ``docs/tutorials/start`` has. Those of pages
need Chromium: ``python -m tests.pictures [NAME]...`` (``make pictures``).
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

import leakscope
from leakscope.pages.pictures import of_heap
from tests import tutorials

EXAMPLE = tutorials.DOCS / "example"
CAST = EXAMPLE / "cast.svg"
PAGE = EXAMPLE / "page.png"
PICTURES = tutorials.DOCS / "pictures"
HEAP, WATCH = PICTURES / "heap.svg", PICTURES / "watch.svg"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_RECORDED_IN = tutorials.FOLDER / "start"
_COMMANDS = (  # with the seconds that each takes to be typed and answered, as far as one likes to wait
    ("leakscope record -o before.parquet -- python train.py", 2.5),
    ("leakscope report before.parquet | head -18", 3.0),
    ("leakscope record -o after.parquet -- python train.py", 2.5),
    ("leakscope compare before.parquet after.parquet | head -10", 2.0),
)
_WIDTH = tutorials.WIDTH
# As rich's own, but without fonts from elsewhere, and with lines that appear one command after the other.
_SVG = """\
<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<title>leakscope records a program, names the line that leaks, and compares it with the mended one</title>
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; \
font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
@media (prefers-reduced-motion: no-preference) {{
@keyframes appear {{ from {{ opacity: 0 }} }}
.{unique_id}-matrix > *, .{unique_id}-behind > * {{ animation: appear 0.2s backwards; }}
}}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" />
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
<g class="{unique_id}-behind">{backgrounds}</g>
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""
_ROW = re.compile(r'<text [^>]*clip-path="url\(#cast-line-(\d+)\)"')


def cast() -> str:
    """An animated SVG of the terminal of ``docs/tutorials/start``."""
    console = Console(record=True, width=_WIDTH, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    delays: list[float] = []
    at_s = 0.3
    for command, seconds in _COMMANDS:
        lines = [Text.assemble(("$ ", "bold green"), (command, "bold"))]
        lines += Text.from_ansi(tutorials.printed(command, _RECORDED_IN, color=True)).split()
        wrapped = [part for line in lines for part in line.wrap(console, _WIDTH)]
        for number, line in enumerate([*wrapped, Text()]):
            console.print(line, no_wrap=True, soft_wrap=True)
            delays.append(at_s + (0.8 if number else 0.0))
        at_s += seconds
    svg = console.export_svg(title="", theme=DIMMED_MONOKAI, code_format=_SVG, unique_id="cast")
    return _ROW.sub(lambda row: f'{row[0]} style="animation-delay: {delays[int(row[1])]:.1f}s"', svg)


def words(svg: str) -> list[str]:
    """All that a picture says, without how: rich changes its ways of drawing."""
    return re.sub(r"<style>.*?</style>|<[^>]+>|&#160;", " ", svg, flags=re.DOTALL).split()


def heap() -> str:
    """The boxes of ``leakscope view``, as SVG."""
    report = leakscope.analyze(leakscope.open_recording(_RECORDED_IN / "before.parquet"))
    return of_heap("The heap at the last snapshot, by holder", report.heap[0]) + "\n"


def _report_page(html: Path) -> None:
    html.write_text(leakscope.render(leakscope.analyze(leakscope.open_recording(EXAMPLE / "run.parquet")), "html"))


def _compare_page(html: Path) -> None:
    _leakscope("compare", _RECORDED_IN / "before.parquet", _RECORDED_IN / "after.parquet", "-o", html)


def _fleet_page(html: Path) -> None:
    _leakscope("fleet", "demo", "-q", "fleet", folder=html.parent)
    _leakscope("fleet", "index", "fleet", folder=html.parent)
    _leakscope("fleet", "report", "-o", html, folder=html.parent)
    html.write_text(html.read_text("utf-8").replace(f"{html.parent}/", "/home/you/"), "utf-8")


def _notebook_page(html: Path) -> None:
    cell = leakscope.analyze(leakscope.open_recording(EXAMPLE / "run.parquet"))._repr_html_()
    html.write_text(f"<!doctype html><meta charset='utf-8'><body style='margin: 12px'>{cell}", encoding="utf-8")


def watch() -> str:
    """The screen of ``leakscope watch`` beside a run that leaks, as SVG."""
    from leakscope.watching.app import WatchApp
    from leakscope.watching.feeds import RecordingFeed
    from leakscope.watching.viewer import Viewer

    class GoesOn(RecordingFeed):
        is_over = property(lambda self: False)  # type: ignore[assignment]

        def poll(self) -> Iterator[Any]:
            """As it was before its end."""
            return ((table, row) for table, row in super().poll() if row["time_mono_ns"] < until_ns)

    recording = leakscope.open_recording(tutorials.FOLDER / "ram-per-step" / "before.parquet")
    until_ns = recording.meta["start_mono_ns"] + 58 * 10**9
    app = WatchApp(Viewer(GoesOn(recording), "recording", recording.path, None, plain=False), 3600.0)

    async def drawn() -> str:
        async with app.run_test(size=(100, 30)) as pilot:
            await pilot.pause()
            return app.export_screenshot(title="")

    svg = asyncio.run(drawn())
    return re.sub(r"@font-face \{.*?\}\n", "", svg, flags=re.DOTALL)  # the reader's own: it asks nobody for anything


def _leakscope(*words: str | Path, folder: Path | None = None) -> None:
    environ = {**os.environ, "PYTHONPATH": str(tutorials.DOCS.parent)}
    subprocess.run(
        [sys.executable, "-m", "leakscope", *words], check=True, stdout=subprocess.DEVNULL, cwd=folder, env=environ
    )


PAGES = {  # what makes the page of each picture, and how much of it is shown
    "page": (PAGE, _report_page, (1280, 1000)),
    "compare": (PICTURES / "compare.png", _compare_page, (1000, 760)),
    "fleet": (PICTURES / "fleet.png", _fleet_page, (1100, 820)),
    "notebook": (PICTURES / "notebook.png", _notebook_page, (900, 640)),
}


def draw(name: str) -> bool:
    """Draw the first screen of a page. **Returns** whether there was a browser to do it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return False
    target, make, (width, height) = PAGES[name]
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder, "page.html")
        make(html)
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000",
             f"--user-data-dir={folder}/profile", f"--window-size={width},{height}", f"--screenshot={target}",
             html.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
        target.write_bytes(_with_text(target.read_bytes(), headline(html.read_text("utf-8"))))
    return True


def headline(html: str) -> str:
    """What the page of a picture says at its top, which the picture has with it: a test sees that it is of today."""
    found = re.search(r"<h[12][^>]*>(.*?)</h[12]>", html, re.DOTALL)
    assert found is not None
    return re.sub(r"<[^>]+>", "", found[1]).strip()


def _with_text(png: bytes, text: str) -> bytes:
    """A chunk of text before the end of a PNG."""
    body = b"iTXtDescription\0\0\0\0\0" + text.encode()
    chunk = struct.pack(">I", len(body) - 4) + body + struct.pack(">I", zlib.crc32(body))
    end = png.rindex(b"IEND") - 4
    return png[:end] + chunk + png[end:]


if __name__ == "__main__":
    if not sys.argv[1:] or "watch" in sys.argv[1:]:
        WATCH.write_text(watch(), encoding="utf-8")
    for picture in [name for name in sys.argv[1:] if name != "watch"] or PAGES:
        if not draw(picture):
            sys.exit(f"no browser found ({', '.join(BROWSERS)}): pictures are left as they are")
