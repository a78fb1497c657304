"""A bucket of S3's, as far as moto plays one on this computer: recorded, uploaded meanwhile and at the end, read."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope import open_recording
from leakscope.cli import main
from leakscope.storage.remote import put, size_of
from tests.recorder.runs import PYTHON, environment, record_command

pytestmark = pytest.mark.slow
pytest.importorskip("s3fs")
moto_server = pytest.importorskip("moto.server")
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
LEAKS = """
import time
kept = []
for i in range(250):
    kept.append(bytearray(400_000))
    time.sleep(0.1)
"""


@pytest.fixture
def s3() -> Iterator[str]:
    """A bucket; the way to it stands in the environment, as a user's would."""
    server = moto_server.ThreadedMotoServer("127.0.0.1", port=0)
    server.start()
    _, port = server.get_host_and_port()
    settings = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "AKIAIOSFODNN7EXAMPLE",
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name, value)
        import s3fs

        s3fs.S3FileSystem.clear_instance_cache()
        s3fs.S3FileSystem(anon=False).mkdir(f"runs-{port}")  # moto keeps buckets as long as this process
        yield f"s3://runs-{port}"
        s3fs.S3FileSystem.clear_instance_cache()
    server.stop()


def test_a_run_is_in_the_bucket_when_it_has_ended(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--spool", str(tmp_path / "spool"), "--upload-wait", "9min", "--upload-every", "10s", "--flush", "1s"]
    command = record_command(*words, "-o", f"{s3}/{{job}}/{{rank}}.parquet", "--", PYTHON, "-c", LEAKS, finalize=True)
    result = subprocess.run(
        command, cwd=tmp_path, env=environment(LEAKSCOPE_JOB="4711"), capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0
    assert f"recorded in {s3}/4711/0.parquet" in result.stderr, result.stderr
    there = open_recording(f"{s3}/4711/0.parquet")
    assert there.meta["state"] == "final"
    assert there.meta["belongs"]["job"] == "4711"
    assert there.meta["verdict"]["leaking"] is True
    assert SECRET not in json.dumps(there.meta)
    assert not list((tmp_path / "spool").iterdir())
    assert main(["report", f"{s3}/4711/0.parquet", "-f", "json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["findings"][0]["subject"]["variable"] == "kept"
    assert report["findings"][0]["fingerprint"] == there.meta["verdict"]["findings"][0]["fingerprint"]


def test_what_is_wrong_with_a_bucket_is_one_line(s3: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", f"{s3}/none.parquet"]) == 3
    assert main(["report", "s3://no-such-bucket/none.parquet"]) == 3
    (tmp_path / "run.txt").write_text("x")
    put(str(tmp_path / "run.txt"), f"{s3}/text.parquet")
    assert size_of(f"{s3}/text.parquet") == 1
    assert main(["report", f"{s3}/text.parquet"]) == 3
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 3 and all(line.startswith("leakscope: s3://") or "s3://" in line for line in said), said
