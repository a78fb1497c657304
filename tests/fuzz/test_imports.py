"""A file of another tool that is cut, mangled or of another format: one line, or a recording that can be looked at."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope import importing
from leakscope.errors import LeakscopeError
from tests.importing import small_dumps

from .looking import FUZZ, look

_FOLDER = Path(__file__).parents[2] / "fixtures/imports"
_FILES = sorted(path for path in _FOLDER.iterdir() if path.suffix not in (".md", ".py", ".gz"))
_SOUND = {path.name: path.read_bytes() for path in _FILES}
_SOUND |= {"heap.jsonl": small_dumps.midden(), "heap.pyheap": small_dumps.pyheap()}
_HOSTILE = [
    b"nan", b"-1", b"1e400", b"9" * 400, b"\x00", b"\xff\xfe", b"\n\n", b",,,,", b"{", b"]", b"\x1b]0;x\x07", b"inf",
    b"2026-13-99T99:99:99Z", b"0001-01-01T00:00:00Z", b"</script>", b"Killed process 1 (x)", b"[N/A]", b"\r", b'"',
]  # fmt: skip
_READ_HERE = [name for name in importing.formats() if name not in ("memray", "wandb-run", "tensorboard")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("imported")


@st.composite
def mangled(draw: st.DrawFn) -> tuple[str, bytes]:
    """Name and content of a file: pieces of a sound one are left out, doubled, or replaced."""
    name = draw(st.sampled_from(sorted(_SOUND)))
    content = bytearray(_SOUND[name])
    for _ in range(draw(st.integers(1, 8))):
        at = draw(st.integers(0, len(content)))
        end = min(len(content), at + draw(st.integers(0, 40)))
        content[at:end] = draw(st.sampled_from(_HOSTILE) | st.binary(max_size=8) | st.just(bytes(content[at:end]) * 2))
    if draw(st.booleans()):
        del content[draw(st.integers(0, len(content))) :]
    return name, bytes(content)


@FUZZ
@given(one=mangled(), form=st.none() | st.sampled_from(_READ_HERE))
def test_a_mangled_file(folder: Path, one: tuple[str, bytes], form: str | None) -> None:
    path, output = folder / one[0], folder / "run.parquet"
    path.write_bytes(one[1])
    try:
        importing.import_files([path], output, form=form, force=True)
    except LeakscopeError as error:
        assert str(error).isprintable() and error.exit_status in (2, 3)
    else:
        look(output)
