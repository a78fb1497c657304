"""The documentation site: every page has its place, no link leads nowhere, and it asks nobody for anything."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import site

CONFIG = site.ROOT / "mkdocs.yml"


def test_every_page_has_a_place_in_the_navigation() -> None:
    named = re.findall(r"^ +- (\S+\.md)$", CONFIG.read_text("utf-8"), re.MULTILINE)
    assert len(set(named)) == len(named)
    pages = {page.relative_to(site.DOCS).as_posix() for page in site.DOCS.rglob("*.md")}
    assert set(named) == {page for page in pages if not page.startswith(("kinds/", "example/"))}


def test_links_out_of_docs_lead_to_pages_of_the_site() -> None:
    text = (
        "[a](../README.md#more) [b](../../fixtures/retained_graph) `[c](../README.md)` [d](index.md) [e](https://x.y)"
    )
    shown = site._with_links_of_site(text, site.DOCS / "kinds" / "made-up.md")
    assert shown == (
        "[a](../README.md#more) [b](../repository/fixtures/retained_graph/index.md) `[c](../README.md)`"
        " [d](index.md) [e](https://x.y)"
    )
    assert "](repository/README.md)" in site._with_links_of_site("[a](../README.md)", site.DOCS / "made-up.md")


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("material") is None, reason="needs pip install -e '.[docs]'")
def test_the_site_is_built_without_a_warning_and_loads_nothing_from_elsewhere(tmp_path: Path) -> None:
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", CONFIG, "-d", tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert built.returncode == 0, built.stderr  # with --quiet it would be 0 whatever is broken
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) > 80
    loads = re.compile(r"<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=\"(https?:[^\"]*)")
    assert not [loaded for page in pages for loaded in loads.findall(page.read_text("utf-8"))]
    assert "search_index.js" in "".join(path.name for path in (tmp_path / "search").iterdir())  # read from disk, too
