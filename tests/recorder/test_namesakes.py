"""Another product is called leakscope, too: ours says so where it meets it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from leakscope.recorder import namesakes

FOREIGN = "#!/usr/bin/python3\nimport sys\nfrom leakscope.cli import app\nsys.exit(app())\n"
OURS = "#!/usr/bin/python3\nimport sys\nfrom leakscope.__main__ import main\nsys.exit(main())\n"


def command(folder: Path, text: str) -> dict[str, str]:
    folder.mkdir()
    (folder / "leakscope").write_text(text)
    (folder / "leakscope").chmod(0o755)
    return {"PATH": f"/nowhere::{folder}"}


def test_another_command_on_the_path_is_named(tmp_path: Path) -> None:
    said = namesakes.found(command(tmp_path / "bin", FOREIGN), [])
    assert said is not None
    assert f"{tmp_path}/bin/leakscope" in said
    assert f"{sys.executable} -m leakscope" in said


@pytest.mark.parametrize("text", [OURS, "\x7fELF", "#!/usr/bin/env python3\nPK\x03\x04"])
def test_ours_is_no_other(text: str, tmp_path: Path) -> None:
    assert namesakes.found(command(tmp_path / "bin", text), []) is None


def test_another_package_beside_ours_is_named(tmp_path: Path) -> None:
    (tmp_path / "leakscope_recorder-0.1.0.dist-info").mkdir()
    assert namesakes.found({}, [str(tmp_path)]) is None
    (tmp_path / "leakscope-0.2.0.dist-info").mkdir()
    said = namesakes.found({}, ["/nowhere", str(tmp_path)])
    assert said is not None
    assert "leakscope-0.2.0" in said and "pip uninstall leakscope" in said
