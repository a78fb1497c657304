"""A bucket of S3, by moto on loopback: index, samples, and what changed since."""

from __future__ import annotations

import pytest

from leakscope.fleet import index
from leakscope.fleet.asking import Asked
from tests.fleet.fleets import written

pytest.importorskip("s3fs")
server = pytest.importorskip("moto.server")
pytest.importorskip("duckdb")
pytestmark = pytest.mark.slow


@pytest.fixture
def bucket(monkeypatch):
    import fsspec
    import s3fs

    running = server.ThreadedMotoServer(port=0)
    running.start()
    host, port = running.get_host_and_port()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    s3fs.S3FileSystem.clear_instance_cache()
    store = fsspec.filesystem("s3")
    store.mkdir("runs")
    yield store
    s3fs.S3FileSystem.clear_instance_cache()
    running.stop()


def test_a_bucket_is_indexed_asked_and_indexed_again(bucket, tmp_path):
    _, (fault,) = written(tmp_path / "fleet", 3, ["leak-on-one-rank"])
    bucket.put(str(tmp_path / "fleet"), "runs/fleet", recursive=True)
    here = index.index([str(tmp_path / "fleet")], tmp_path / "here.parquet")
    there = index.index(["s3://runs/fleet"], tmp_path / "there.parquet")
    assert (there.total, there.states) == (here.total, here.states)
    with Asked(tmp_path / "there.parquet", [f"job={fault.where['job']}", f"rank={fault.where['rank']}"]) as asked:
        told = asked.frame(
            "SELECT count(DISTINCT recording) AS n, min(slope_bytes_per_hour) AS least FROM process_growth"
        )
        assert told["n"][0] == len(fault.paths)
    again = index.index(["s3://runs/fleet"], tmp_path / "there.parquet")
    assert again.read == there.states.get("unfinished", 0)
    bucket.put(str(tmp_path / "fleet" / fault.paths[0]), "runs/fleet/one-more.parquet")
    bucket.invalidate_cache()
    assert index.index(["s3://runs/*/*.parquet"], tmp_path / "there.parquet").new == 1
