"""Pictures of README and docs/: the page of the example, and a terminal in which it is found and mended.

The terminal's is made by ``make docs``, from what ``docs/tutorials/start`` has. That of the page needs Chromium:
``python -m tests.pictures`` (``make pictures``).
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI
from rich.text import Text

import leakscope
from tests import tutorials

EXAMPLE = tutorials.DOCS / "example"
CAST = EXAMPLE / "cast.svg"
PAGE = EXAMPLE / "page.png"
WINDOW = (1280, 1000)
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


def page() -> bool:
    """Draw the first screen of the example's page. **Returns** whether there was a browser to do it."""
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return False
    with tempfile.TemporaryDirectory() as folder:
        html = Path(folder, "page.html")
        html.write_text(leakscope.render(leakscope.analyze(leakscope.open_recording(EXAMPLE / "run.parquet")), "html"))
        subprocess.run(
            [browser, "--headless", "--no-sandbox", "--hide-scrollbars", "--virtual-time-budget=5000",
             f"--window-size={WINDOW[0]},{WINDOW[1]}", f"--screenshot={PAGE}", html.as_uri()],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    return True


if __name__ == "__main__":
    if not page():
        sys.exit(f"no browser found ({', '.join(BROWSERS)}): {PAGE.name} is left as it is")
