"""A recording to send away: texts of the user's become placeholders, figures and kinds of finding stay as they are.

Replaced, each by the same placeholder wherever it stands: what follows the names of options in command lines; folders
in paths, but for those that every system has; keys of dicts; what exceptions, labels and marks say; of sources the
strings, the comments and the variables that nothing else in the recording names; the names of host and user, of the
boot and of GPUs. Kept: figures, names of variables, functions, classes, types, modules and files, since a report is
made of them, and what the runtime itself says of memory. Prints of weights and of rows of data (``fingerprint``,
``content_sketch``) are figures, too: whoever has the same data can tell.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .. import schema
from ..errors import BadInput
from ..facts.heap.place import OF_MODULES
from ..facts.tables import cells
from ..storage import Recording, open_recording, rewrite
from ._source import Names
from ._texts import Texts

NOTE = "its texts were replaced by placeholders (leakscope redact); its figures were not"
_WORD = re.compile(r"[A-Za-z_]\w*")
_HOME = re.compile(r"/(?:home|Users)/([^/\s]+)")


def redact(run: Path, output: Path) -> int:
    """Write what ``run`` holds to ``output`` without the user's texts; returns how many texts were replaced.

    **Errors** BadInput if ``output`` is there already or cannot be; UnreadableRecording.
    """
    if output.exists() or output.is_symlink():
        raise BadInput(f"{output} is there already: choose another name, or remove it")
    if not output.parent.is_dir():
        raise BadInput(f"cannot write {output}: there is no folder {output.parent}")
    recording = open_recording(run)
    texts = Texts(
        _names(recording),
        machines=[str(recording.meta.get("host") or "")],
        users=_users(recording),
        names_in_keys=_names_in_keys(recording),
    )
    # The verdict has sentences; who analyses the copy finds it again.
    kept = {name: value for name, value in recording.meta.items() if name != "verdict"}
    footer = {name: _of_footer(texts, name, value) for name, value in kept.items()}
    footer["notes"] = [*footer.get("notes", []), NOTE]
    rewrite(recording, output, texts.cell, footer)
    return texts.count


def _names_in_keys(recording: Recording) -> set[str]:
    """What objects have as keys and is a name: of a module, of a global variable, of an attribute."""
    told = list(cells(recording.rows["heap_nodes"], "pid", "node", "path_node", "edge_kind", "edge_name"))
    spaces = {(pid, node) for pid, node, above, kind, _ in told if above == OF_MODULES or kind == "namespace"}
    keys = [(pid, above, name) for pid, _, above, _, name in told if name is not None]
    return {name[2:-2] for pid, above, name in keys if name.startswith("['") and (pid, above) in spaces}


def _of_footer(texts: Texts, name: str, value: Any) -> Any:
    kind = schema.FOOTER_CARRIES.get(name)
    if kind is None:
        return texts.words(value) if isinstance(value, str) else value
    if name == "belongs" and isinstance(value, dict):
        return {key: _tree(texts, kind, one) if key != "scheduler" else one for key, one in value.items()}
    if kind == "command" and isinstance(value, list):
        return texts.command([str(word) for word in value])
    return texts.folder(value) if name == "cwd" and isinstance(value, str) else _tree(texts, kind, value)


def _tree(texts: Texts, kind: str, value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _tree(texts, kind, member) for key, member in value.items()}
    if isinstance(value, list):
        return [_tree(texts, kind, member) for member in value]
    return texts.of_kind(kind, value) if isinstance(value, str) else value


def _columns(recording: Recording, *kinds: str) -> list[list[str]]:
    """The texts of every column that carries one of these kinds."""
    return [
        [text for text in recording.rows[name][column.name].dropna().unique() if isinstance(text, str)]
        for name, table in schema.TABLES.items()
        if name in recording.names()
        for column in table.columns
        if column.carries in kinds and column.name in recording.rows[name]
    ]


def _names(recording: Recording) -> Names:
    """What is named outside the sources keeps its name in them."""
    known = {word for texts in _columns(recording, "name", "way") for text in texts for word in _WORD.findall(text)}
    stacks = {word for texts in _columns(recording, "file") for text in texts for word in _WORD.findall(text)}
    return Names([text for texts in _columns(recording, "source") for text in texts], known | stacks)


def _users(recording: Recording) -> list[str]:
    """Whose home folders are named."""
    paths = [text for texts in _columns(recording, "file", "command", "note", "message") for text in texts]
    return sorted({name for path in [*paths, str(recording.meta.get("cwd"))] for name in _HOME.findall(path)})
