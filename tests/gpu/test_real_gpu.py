"""Recordings of real programs on a real GPU: what the stand-ins of the other tests only claim.

Skipped without a device. ``programs/`` has larger ones; recordings of these are judged without one (test_recorded.py).
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze
from leakscope.findings import Report
from leakscope.storage import Recording, open_recording

pytestmark = [pytest.mark.live, pytest.mark.gpu, pytest.mark.torch]


@pytest.fixture(scope="module", autouse=True)
def _needs_a_device() -> None:
    import torch  # here: whoever collects the tests need not wait for it

    if not torch.cuda.is_available():
        pytest.skip("no CUDA device")


LEAK = """
    import time, torch
    def main():
        model = torch.nn.Linear(1024, 1024).cuda()
        optimizer = torch.optim.AdamW(model.parameters())
        outputs = []
        began = time.monotonic()
        while time.monotonic() - began < 16:
            output = model(torch.randn(256, 1024, device="cuda"))
            output.square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            KEEP
            time.sleep(0.02)
    main()
"""
# Two blocks of 9.75 MiB fill a segment of 20 MiB. With every other one freed a gigabyte is unused, in pieces of 10 MiB.
CUT_UP = """
    import time, torch
    torch.cuda.set_per_process_memory_fraction(2**31 / torch.cuda.get_device_properties(0).total_memory)
    model = torch.nn.Linear(8, 8).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    began = time.monotonic()
    while time.monotonic() - began < 4:
        optimizer.step()
    blocks = []
    try:
        while True:
            blocks.append(torch.empty(39 * 2**18, dtype=torch.uint8, device="cuda"))
    except torch.cuda.OutOfMemoryError:
        pass
    FREE
    try:
        torch.empty(2**29, dtype=torch.uint8, device="cuda")  # asks
    except torch.cuda.OutOfMemoryError:
        pass
"""


def recorded(folder: Path, program: str, *options: str) -> Recording:
    script = folder / "train.py"
    script.write_text(textwrap.dedent(program))
    output = folder / "run.parquet"
    command = [
        sys.executable,
        "-m",
        "leakscope",
        "record",
        "-q",
        *options,
        "-o",
        str(output),
        "--",
        sys.executable,
        str(script),
    ]
    subprocess.run(command, check=True, timeout=120)
    return open_recording(output)


def looked(recording: Recording) -> Report:
    return analyze(recording, only=["gpu-retention", "gpu-fragmentation", "gpu-other-process"])


def kinds(report: Report) -> set[str]:
    return {finding.kind for finding in report.findings}


@pytest.fixture(scope="module")
def leak(tmp_path_factory: Any) -> Recording:
    return recorded(tmp_path_factory.mktemp("leak"), LEAK.replace("KEEP", "outputs.append(output)"))


def test_tensors_that_stay_are_found_and_named(leak: Recording) -> None:
    report = looked(leak)
    assert "gpu-retention" in kinds(report)
    (finding,) = [f for f in report.findings if f.kind == "gpu-retention"]
    assert finding.subject.variable == "outputs"


def test_torch_and_nvml_agree(leak: Recording) -> None:
    device = leak.tables["gpu_samples"].query("gpu_total_bytes.notna()")
    reserved = leak.tables["allocator"]["reserved_bytes"].max()
    assert len(device)
    assert device["gpu_used_bytes"].max() >= 0.9 * reserved


def test_the_clean_twin_is_silent(tmp_path: Path) -> None:
    assert "gpu-retention" not in kinds(looked(recorded(tmp_path, LEAK.replace("KEEP", "pass"))))


def test_memory_in_pieces(tmp_path: Path) -> None:
    recording = recorded(tmp_path, CUT_UP.replace("FREE", "del blocks[::2]"))
    (finding,) = [f for f in looked(recording).findings if f.kind == "gpu-fragmentation"]
    assert finding.severity == "critical"
    assert finding.subject.line == 1 + next(
        i for i, line in enumerate((tmp_path / "train.py").read_text().splitlines()) if "# asks" in line
    )


def test_a_device_that_is_really_full(tmp_path: Path) -> None:
    report = looked(recorded(tmp_path, CUT_UP.replace("FREE", "")))
    assert "gpu-fragmentation" not in kinds(report)
    assert any("full when" in ruled_out.reason for ruled_out in report.ruled_out)


def test_the_history_of_torch_tells_the_line(tmp_path: Path) -> None:
    recording = recorded(tmp_path, LEAK.replace("KEEP", "outputs.append(output)"), "--gpu-history")
    assert recording.tables["gpu_snapshots"]["has_stacks"].all()
    # At the end of the program main() has returned, and let go of both.
    budget = {row.account: row.bytes for row in analyze(recording).tensor_budget if row.moment == "snapshot-peak"}
    assert budget["model"] >= 4 * 2**20 and budget["optimizer"] >= 8 * 2**20
    (finding,) = [f for f in looked(recording).findings if f.kind == "gpu-retention"]
    assert any("allocated" in evidence.text and "train.py" in evidence.text for evidence in finding.evidence)


def test_the_history_of_torch_at_a_failure(tmp_path: Path) -> None:
    recording = recorded(tmp_path, CUT_UP.replace("FREE", ""), "--gpu-history")
    report = analyze(recording, only=["gpu-out-of-memory"])
    (finding,) = report.findings
    assert finding.subject.file is not None and finding.subject.file.endswith("train.py")


def test_a_job_that_leaves_the_gpu_alone_is_left_alone(tmp_path: Path) -> None:
    """No context is made, and no device is opened that torch itself does not open."""
    program = """
        import os, sys, time, torch
        model = torch.nn.Linear(8, 8)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        began = time.monotonic()
        while time.monotonic() - began < 4:
            model(torch.ones(8)).sum().backward()
            optimizer.step()
        assert not torch.cuda.is_initialized()
        links = [os.path.join("/proc/self/fd", fd) for fd in os.listdir("/proc/self/fd")]
        opened = sorted(os.readlink(link) for link in links if os.path.lexists(link))
        with open(sys.argv[0] + ".opened", "w") as file:
            print(*[path for path in opened if path.startswith("/dev/nvidia")], file=file)
    """
    recording = recorded(tmp_path, program)
    assert not len(recording.tables["allocator"])
    script = tmp_path / "train.py"
    opened = Path(f"{script}.opened").read_text()
    subprocess.run([sys.executable, str(script)], check=True, timeout=120)
    assert Path(f"{script}.opened").read_text() == opened


def test_a_captured_training_step_stays_captured(tmp_path: Path) -> None:
    program = """
        import time, torch
        model = torch.nn.Linear(64, 64).cuda()
        optimizer = torch.optim.Adam(model.parameters(), capturable=True)
        batch = torch.randn(32, 64, device="cuda")
        def step():
            optimizer.zero_grad(set_to_none=True)
            model(batch).square().mean().backward()
            optimizer.step()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            began = time.monotonic()
            while time.monotonic() - began < 4:  # until the agent is at work
                step()
        torch.cuda.current_stream().wait_stream(side)
        for _ in range(50):
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                step()
                time.sleep(0.1)
            graph.replay()
        torch.cuda.synchronize()
    """
    assert recorded(tmp_path, program).ended[:2] == ("exit", 0)
