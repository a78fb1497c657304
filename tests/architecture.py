"""The picture in ARCHITECTURE.md, drawn from the imports: floors of rooms, and who stands on whom.

``python -m tests.architecture`` (part of ``make docs``) draws it anew; a test compares.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from tests.test_layers import FOUNDATION, PACKAGE, imports

PAGE = PACKAGE.parent / "ARCHITECTURE.md"
GROUND = "ground"  # what every room may use
_DOORS = {"__init__", "__main__"}  # the package's own, which lead to every room

Arrows = Mapping[str, set[str]]


def room_arrows() -> dict[str, set[str]]:
    """Room -> rooms it imports; the foundation is one room."""
    return _arrows(
        PACKAGE, lambda parts: None if parts[0] in _DOORS else GROUND if parts[0] in FOUNDATION else parts[0]
    )


def fact_arrows() -> dict[str, set[str]]:
    """The same inside facts/."""

    def room_of(parts: tuple[str, ...]) -> str | None:
        return parts[1] if parts[0] == "facts" and parts[1:] else None

    return _arrows(PACKAGE / "facts", room_of)


def _arrows(folder: Path, room_of: Callable[[tuple[str, ...]], str | None]) -> dict[str, set[str]]:
    arrows: dict[str, set[str]] = {}
    for path in sorted(folder.rglob("*.py")):
        own = room_of(path.relative_to(PACKAGE).with_suffix("").parts)
        if own is None or own.startswith("__"):
            continue
        arrows.setdefault(own, set())
        for _, module in imports(path):
            parts = module.split(".")
            other = room_of(parts[1:]) if parts[0] == PACKAGE.name and len(parts) > 1 else None
            if other is not None and other != own and not other.startswith("__"):
                arrows[own].add(other)
    return {room: {other for other in others if other in arrows} for room, others in arrows.items()}


def floors(arrows: Arrows) -> list[list[str]]:
    """Rooms from the ground up; each stands on rooms of lower floors. **Errors** ValueError where imports go round."""
    level: dict[str, int] = {}
    while len(level) < len(arrows):
        placed = {room for room in arrows if room not in level and arrows[room] <= level.keys()}
        if not placed:
            raise ValueError(f"imports go round among {', '.join(sorted(arrows.keys() - level.keys()))}")
        number = max(level.values(), default=-1) + 1
        level.update(dict.fromkeys(placed, number))
    return [sorted(room for room in level if level[room] == n) for n in range(max(level.values()) + 1)]


def direct(arrows: Arrows) -> dict[str, list[str]]:
    """Arrows without those that a longer way says already."""
    return {
        room: sorted(o for o in others if not any(o in _all_below(arrows, between) for between in others - {o}))
        for room, others in arrows.items()
    }


def _all_below(arrows: Arrows, room: str) -> set[str]:
    found: set[str] = set()
    todo = list(arrows[room])
    while todo:
        if (other := todo.pop()) not in found:
            found.add(other)
            todo += arrows[other]
    return found


def picture(arrows: Arrows) -> str:
    """The roof first, each room with what it is for and what it stands on."""
    on = direct(arrows)
    lines = []
    for number, rooms in reversed(list(enumerate(floors(arrows)))):
        for room in rooms:
            stands = f"→ {', '.join(on[room])}" if on[room] else ""
            lines.append(f"{number}  {room:14} {stands}".rstrip())
    return "```text\n" + "\n".join(lines) + "\n```\n"


def table(rooms: Iterable[str], folder: Path) -> str:
    """What each room is for, in the words of its own docstring."""
    rows = [f"| `{room}` | {_purpose(folder, room)} |" for room in sorted(rooms)]
    return "\n".join(["| room | what it is for |", "|---|---|", *rows]) + "\n"


def _purpose(folder: Path, room: str) -> str:
    if room == GROUND:
        return "What every room may use: " + ", ".join(f"`{name}`" for name in sorted(FOUNDATION)) + "."
    file = folder / room / "__init__.py" if (folder / room).is_dir() else folder / f"{room}.py"
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return " ".join(docstring.split("\n\n")[0].replace("``", "`").replace("|", "\\|").split())


def sections() -> dict[str, str]:
    rooms, facts = room_arrows(), fact_arrows()
    return {
        "rooms": picture(rooms),
        "room-purposes": table(rooms, PACKAGE),
        "facts": picture(facts),
        "fact-purposes": table(facts, PACKAGE / "facts"),
    }


def drawn(text: str) -> str:
    """The page with its generated parts anew."""
    for name, content in sections().items():
        pattern = re.compile(rf"(<!-- begin {name}\b[^>]*-->\n).*?(<!-- end {name} -->)", re.DOTALL)
        text = pattern.sub(lambda match, new=content: match[1] + new + match[2], text)  # type: ignore[misc]
    return text


if __name__ == "__main__":
    PAGE.write_text(drawn(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
