"""What the documentation site has that lies elsewhere; MkDocs calls these functions (mkdocs.yml).

Pages of docs/ link to files of the repository: README, fixtures, notebooks. Each becomes a page of the site below
``repository/``, so that no link leads nowhere, and none out of the site.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
KINDS = "findings.md"  # the entry of the navigation below which every kind stands
_LINK = re.compile(r"(\]\(|src=\"|href=\")(?!https?:|#|mailto:)([^)\s#\"]+)")
_CODE = re.compile(r"(^ *```.*?^ *```|`[^`\n]+`)", re.DOTALL | re.MULTILINE)
_LANGUAGES = {".py": "python", ".json": "json", ".toml": "toml", ".yml": "yaml", ".sh": "bash"}


def on_config(config: Any) -> Any:
    kinds = [f"kinds/{page.name}" for page in sorted((DOCS / "kinds").glob("*.md"))]
    for section in config["nav"]:
        for pages in section.values():
            if KINDS in pages:
                pages += kinds
    return config


def on_files(files: Any, config: Any) -> Any:
    from mkdocs.structure.files import File

    for path in sorted(_outside()):
        files.append(File.generated(config, _uri(path), content=_text(path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    return _with_links_of_site(markdown, _path(page.file.src_uri))


@lru_cache
def _outside() -> set[Path]:
    """What pages link to outside docs/, and what these link to."""
    found: set[Path] = set()
    todo = list(DOCS.rglob("*.md"))
    while todo:
        page = todo.pop()
        if page.suffix != ".md" and not page.is_dir():
            continue
        for linked in _linked(_text(page), page):
            if DOCS not in (linked, *linked.parents) and linked not in found:
                found.add(linked)
                todo.append(linked)
    return found


def _linked(text: str, page: Path) -> Iterator[Path]:
    for target in _LINK.finditer(_CODE.sub("", text)):
        path = (_folder(page) / target[2]).resolve()
        if path.exists() and ROOT in path.parents:
            yield path


def _with_links_of_site(text: str, page: Path) -> str:
    def as_in_site(link: re.Match[str]) -> str:
        path = (_folder(page) / link[2]).resolve()
        if not path.exists() or ROOT not in path.parents:
            return link[0]
        return link[1] + os.path.relpath(_uri(path), os.path.dirname(_uri(page)) or ".")

    parts = _CODE.split(text)  # code and text by turns
    return "".join(part if number % 2 else _LINK.sub(as_in_site, part) for number, part in enumerate(parts))


def _folder(page: Path) -> Path:
    return page if page.is_dir() else page.parent


def _uri(path: Path) -> str:
    """Where a file of the repository stands in the site, as a file of docs/ would."""
    if DOCS in path.parents:
        return path.relative_to(DOCS).as_posix()
    name = path.relative_to(ROOT).as_posix().replace(".", "", int(path.name.startswith(".")))
    if path.suffix in {".md", ".svg", ".png"}:
        return f"repository/{name}"
    return f"repository/{name}/index.md" if path.is_dir() else f"repository/{name}.md"


def _path(uri: str) -> Path:
    """The file that ``_uri`` was made from."""
    return next((path for path in _outside() if _uri(path) == uri), DOCS / uri)


def _text(path: Path) -> str:
    """The page of a file or folder: Markdown as it is, the rest as code."""
    if path.is_dir():
        readme = path / "README.md"
        if readme.exists():
            return readme.read_text("utf-8")
        files = [file for file in sorted(path.iterdir()) if file.is_file() and file.suffix in _LANGUAGES]
        return "\n\n".join([f"# {path.relative_to(ROOT)}", *(f"## {file.name}\n\n{_code(file)}" for file in files)])
    if path.suffix == ".md":
        return path.read_text("utf-8")
    return f"# {path.relative_to(ROOT)}\n\n{_code(path)}"


def _code(file: Path) -> str:
    return f"````{_LANGUAGES.get(file.suffix, 'text')}\n{file.read_text('utf-8', errors='replace')}\n````\n"
