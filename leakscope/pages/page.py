"""What every page is made of: template, style and scripts in one file that asks nobody for anything.

Script and style are allowed by their hashes alone, and every string of the job is escaped.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from ..findings import Series
from ..units import format_bytes, format_count, format_duration, format_rate
from ..version import __version__
from ..words import accepted, printable, rests_on
from . import charts, plots

_FOLDER = Path(__file__).parent
_SCRIPTS = ("locale.js", "uplot/uPlot.iife.min.js", "page.js", "chart.js")  # of every page, before its own
_LATER = ("more.js",)
_AMOUNT = re.compile(r"(\d) ([KMGT]?i?B|s|min|h)\b")
_STYLES = ("uplot/uPlot.min.css", "page.css")


def page(
    template: str,
    first: tuple[Sequence[str], Mapping[str, Any]],
    then: tuple[Sequence[str], Mapping[str, Any]],
    **values: Any,
) -> str:
    """A whole HTML document, with scripts and what they draw: of the first screen, and of the rest of the page.

    The template places the first right behind what they draw: a browser shows that before it has read the rest.
    """
    licence = (_FOLDER / "uplot/LICENSE").read_text(encoding="utf-8")
    scripts = [
        Markup(f"/* uPlot:\n{licence}*/\n{_bundle((*_SCRIPTS, *first[0]))}"),
        Markup(_bundle((*_LATER, *then[0]))),
    ]
    style = Markup(_bundle(_STYLES))
    return (
        _environment()
        .get_template(template)
        .render(
            scripts_first=_elements("data", first[1], scripts[0]),
            scripts_then=_elements("more", then[1], scripts[1]),
            style=style,
            script_hashes=Markup(" ").join(Markup(f"'{_hash(script)}'") for script in scripts),
            style_hash=_hash(style),
            version=__version__,
            **values,
        )
    )


def _elements(name: str, data: Mapping[str, Any], script: str) -> Markup:
    return Markup(f'<script type="application/json" id="{name}">{_embedded(data)}</script>\n<script>{script}</script>')


def harmless(value: Any) -> Any:
    """A string of the job's as it may be shown: what is invisible, or turns a line round, is written out."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=harmless,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        bytes=format_bytes,
        growth=_growth,
        rate=format_rate,
        accepted=accepted,
        count=format_count,
        duration=format_duration,
        lines=_lines,
        slot=charts.account_slot,
        rests_on=rests_on,
        unbroken=_unbroken,
        zip=zip,
    )
    return environment


def _lines(series: Sequence[Series]) -> list[charts.Chart]:
    return [plots.still(plot, plots.SMALL) for plot in plots.of_series(series)]


def _unbroken(text: str) -> Markup:
    """A line does not end between a number and its unit."""
    return Markup(_AMOUNT.sub("\\1\N{NO-BREAK SPACE}\\2", str(escape(printable(text)))))


def _growth(value: float) -> str:
    return format_bytes(value, signed=True)


def _bundle(names: Sequence[str]) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can leave early: nothing in it opens or closes a tag."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
