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

from ..units import format_bytes, format_count, format_duration, format_rate
from ..version import __version__
from ..words import accepted, printable
from . import charts

_FOLDER = Path(__file__).parent
_SCRIPTS = ("locale.js", "uplot/uPlot.iife.min.js", "page.js", "chart.js")  # of every page, before its own
_AMOUNT = re.compile(r"(\d) ([KMGT]?i?B|s|min|h)\b")
_STYLES = ("uplot/uPlot.min.css", "page.css")
_WHOLE = re.compile(r"^(\s*)(?::root|body) \{", re.MULTILINE)  # of a page; in a cell it is the box round it
_ANCHORS = re.compile(r' (?:id|aria-labelledby|href)="(?!http)[^"]*"')
_IN_A_CELL = """
& { max-width: 62rem; max-height: 46rem; margin: 0; padding: 1rem 1.2rem; border: 1px solid var(--hair);
  border-radius: 6px; overflow: auto; }
h1, h2, h3, h4 { color: inherit; } .finding h4 { color: var(--soft); }
table { margin: 0; border: 0; } tr, th, td { background: none !important; max-width: none; text-align: left; }
.n { text-align: right; }
summary { display: list-item; }
.todo p { display: none; }
"""


def page(
    template: str, scripts: Sequence[str], data: Mapping[str, Any], *, renewal: int | None = None, **values: Any
) -> str:
    """A whole HTML document; ``data`` is what the scripts draw, all else stands in the page itself.

    ``renewal``: which page this is of a run that goes on; it asks where it came from whether there is a newer one.
    """
    if renewal is not None:
        scripts = [*scripts, "renewal.js"]
    licence = (_FOLDER / "uplot/LICENSE").read_text(encoding="utf-8")
    script = Markup(f"/* uPlot:\n{licence}*/\n{_bundle((*_SCRIPTS, *scripts))}")
    style = Markup(_bundle(_STYLES))
    return (
        _environment()
        .get_template(template)
        .render(
            frame="base.html",
            script=script,
            style=style,
            script_hash=_hash(script),
            style_hash=_hash(style),
            data=Markup(_embedded(data)),
            version=__version__,
            renewal=renewal,
            **values,
        )
    )


def cell(template: str, **values: Any) -> str:
    """The same for a cell of a notebook: a box without script, in which the static charts stand.

    Its style is nested below one class, named thrice: that outweighs what a notebook says of tables and headings. No
    part has a name, since a notebook may hold several boxes.
    """
    style = _WHOLE.sub(r"\1& {", _bundle(["page.css"])) + _IN_A_CELL
    inside = Markup(f".leakscope.leakscope.leakscope {{\n{style}}}")
    text = _environment().get_template(template).render(frame="cell.html", style=inside, renewal=None, **values)
    return _ANCHORS.sub("", text)


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
        lines=charts.lines,
        slot=charts.account_slot,
        unbroken=_unbroken,
    )
    return environment


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
