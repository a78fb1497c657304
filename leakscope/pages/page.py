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

from ..findings import ROLES, Series
from ..units import format_about, format_bytes, format_count, format_duration, format_per_step, format_rate
from ..version import __version__
from ..words import accepted, beside, judged, printable, rests_on
from . import charts, plots

_FOLDER = Path(__file__).parent
_SCRIPTS = ("page.js", "chart.js", "plots.js")  # of whatever has charts, before its own
_OF_A_CELL = ("locale.js", "uplot/uPlot.iife.min.js")
_OF_A_PAGE = ("start.js", *_OF_A_CELL)
_CELL_SCRIPT = """// Charts by uPlot, (c) 2022 Leon Sorokin, MIT License.
(() => {
const draw = (ROOT, DATA) => {
%(draw)s
};
const data = %(data)s;
document.querySelectorAll('.leakscope[data-cell="%(mark)s"]:not(.scripted)').forEach((root) => draw(root, data));
})();
"""
_LATER = ("more.js",)
_AMOUNT = re.compile(r"(\d) ([KMGT]?i?B|s|min|h)\b")
# Of escaped text: a word with a bracket inside, as long as a narrow screen has room for.
_CODE = re.compile(r"(?<!\S)(?=\S{3,32}(?:\s|$))[^\s<>]*\w[(\[=][^\s<>]*")
_FOLDER_END = re.compile(r"(?<=[^/\s])/(?=[^/\s])")
_STYLES = ("colours.css", "page.css", "charts.css")
_OF_UPLOT = "uplot/uPlot.min.css"
_WHOLE = re.compile(r"^([^\S\n]*)(?::root|body) \{", re.MULTILINE)  # of a page; in a cell it is the box round it
_ANCHORS = re.compile(r' (?:id|aria-labelledby|href)="(?!http)[^"]*"')
_IN_A_CELL = """
& { max-width: 62rem; max-height: 46rem; margin: 0; padding: 1rem 1.2rem; border: 1px solid var(--hair);
  border-radius: 6px; overflow: auto; }
&.alone { max-height: none; padding: .6rem 1rem; overflow: visible; } .picture { display: block; max-width: 100%; }
h1, h2, h3, h4 { color: inherit; } .finding h4 { color: var(--soft); }
table { margin: 0; border: 0; } tr, th, td { background: none !important; max-width: none; text-align: left; }
.n { text-align: right; }
summary { display: list-item; }
.todo p { display: none; }
dt, dd { float: none; width: auto; margin: 0; padding: 0; font-weight: inherit; }
&.scripted .static { display: none; }
@media print { &.scripted .static { display: block; } }
"""


def page(
    template: str,
    first: tuple[Sequence[str], Mapping[str, Any]],
    then: tuple[Sequence[str], Mapping[str, Any]],
    *,
    renewal: int | None = None,
    is_paged: bool = False,
    **values: Any,
) -> str:
    """A whole HTML document, with scripts and what they draw: of the first screen, and of the rest of the page.

    The template places the first right behind what they draw: a browser shows that before it has read the rest.
    ``renewal``: which page this is of a run that goes on; it asks where it came from whether there is a newer one.
    ``is_paged``: it asks there for more of what is zoomed to.
    """
    if renewal is not None:
        then = [*then[0], "renewal.js"], then[1]
    licence = (_FOLDER / "uplot/LICENSE").read_text(encoding="utf-8")
    scripts = [
        Markup(f"/* uPlot:\n{licence}*/\n{bundle(*_OF_A_PAGE, *_SCRIPTS, *first[0])}"),
        Markup(bundle(*_LATER, *then[0])),
    ]
    style = Markup(bundle(_OF_UPLOT, *_STYLES))
    text = (
        environment()
        .get_template(template)
        .render(
            frame="base.html",
            scripts_first=_elements("data", {**first[1], "is_paged": is_paged}, scripts[0]),
            scripts_then=_elements("more", then[1], scripts[1]),
            style=style,
            script_hashes=Markup(" ").join(Markup(f"'{_hash(script)}'") for script in scripts),
            style_hash=_hash(style),
            version=__version__,
            renewal=renewal,
            is_paged=is_paged,
            **values,
        )
    )
    # With one letter beyond Latin-1 a browser keeps the whole page, scripts included, as two bytes a letter.
    return text.encode("ascii", "xmlcharrefreplace").decode()


def _elements(name: str, data: Mapping[str, Any], script: str) -> Markup:
    return Markup(f'<script type="application/json" id="{name}">{_embedded(data)}</script>\n<script>{script}</script>')


def cell(template: str, data: Mapping[str, Any], scripts: Sequence[str], *, alone: bool = False, **values: Any) -> str:
    """A template for a cell of a notebook: a box that says all it says without its script, too. ``alone``: one chart.

    Its style is nested below one class, named thrice: that outweighs what a notebook says of tables and headings. No
    part has a name, since a notebook may hold several boxes; the script finds its own by a hash of what they draw.
    """
    style = _WHOLE.sub(r"\1& {", bundle(*_STYLES)) + _IN_A_CELL
    inside = Markup(f".leakscope.leakscope.leakscope {{\n{bundle(_OF_UPLOT)}{style}}}")
    mark = hashlib.sha256(json.dumps([template, data]).encode()).hexdigest()[:16]
    text = (
        environment()
        .get_template(template)
        .render(
            frame="cell.html",
            style=inside,
            mark=mark,
            alone=alone,
            scripts_first="",
            scripts_then="",
            renewal=None,
            **values,
        )
    )
    if not data:
        return _ANCHORS.sub("", text)
    script = _CELL_SCRIPT % {"mark": mark, "data": _embedded(data), "draw": bundle(*_OF_A_CELL, *_SCRIPTS, *scripts)}
    return f"{_ANCHORS.sub('', text)}<script>{script}</script>"


def harmless(value: Any) -> Any:
    """A string of the job's as it may be shown: what is invisible, or turns a line round, is written out."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Of all templates: what they print is escaped, and harmless."""
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
        beside=beside,
        judged=judged,
        count=format_count,
        duration=format_duration,
        about=format_about,
        role=lambda role: ROLES.get(role, role),
        lines=_lines,
        per_step=format_per_step,
        slot=charts.account_slot,
        rests_on=rests_on,
        unbroken=_unbroken,
        path=_path,
        zip=zip,
    )
    return environment


def _lines(series: Sequence[Series]) -> list[charts.Chart]:
    return [plots.still(plot, plots.SMALL) for plot in plots.of_series(series)]


def _unbroken(text: str) -> Markup:
    """A line does not end between a number and its unit, nor within a short piece of code."""
    whole = _AMOUNT.sub("\\1\N{NO-BREAK SPACE}\\2", str(escape(printable(text))))
    return Markup(_CODE.sub(r'<span class="whole">\g<0></span>', whole))


def _path(path: str) -> Markup:
    """A line ends behind a folder, not within a name or the number of a line."""
    return Markup(_FOLDER_END.sub("/<wbr>", str(escape(printable(path)))))


def _growth(value: float) -> str:
    return format_bytes(value, signed=True)


def bundle(*names: str) -> str:
    """Styles or scripts, one behind the other: in ASCII, since no reference to a character is known in them."""
    return "\n".join((_FOLDER / name).read_text(encoding="ascii") for name in names)


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def _embedded(data: Mapping[str, Any]) -> str:
    """JSON that no HTML parser can leave early: nothing in it opens or closes a tag."""
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
