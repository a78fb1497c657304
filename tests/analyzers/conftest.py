"""What tests of several diagnoses share."""

from __future__ import annotations

import pytest

from leakscope import analyze, open_recording
from leakscope.importing import import_files
from tests.importing.allocator import dump, snapshot


@pytest.fixture
def told(tmp_path):
    """The report on a device of a memory snapshot of torch, of these kinds alone."""

    def tell(device, *only, **how):
        file = dump(tmp_path / "s.pickle", snapshot(device, **how))
        imported = import_files([file], tmp_path / "run.parquet", force=True)
        return analyze(open_recording(imported.path), only=only or None)

    return tell
