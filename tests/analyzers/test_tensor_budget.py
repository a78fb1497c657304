"""What the tensors of a process are, beside all that it held at that moment."""

from __future__ import annotations

from leakscope import analyze
from tests.builders import RecordingBuilder

from .leaks import PID, MiB


def test_what_reading_the_heap_took_for_a_moment_is_no_memory_of_the_job(tmp_path):
    """The samples around a snapshot show its graph, too, while that is worked out."""
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(180 if 38 <= n <= 46 else 100) * MiB for n in range(80)], every_s=0.25)
    builder.take(PID, 1, 9.5, tensor_bytes=60 * MiB)
    builder.row("heap_graphs", 9.5, PID, take=1, node_count=10**5, held_s=2.0)
    builder.row(
        "tensors", 9.5, PID, take=1, moment="take", device="cpu", tensor_owner="parameter", storage_bytes=60 * MiB
    )
    report = analyze(builder.ends(20.0, exit_code=0).open())
    assert {row.account: row.bytes for row in report.tensor_budget} == {"model": 60 * MiB, "not-tensors": 40 * MiB}
