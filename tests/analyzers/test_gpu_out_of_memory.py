"""A GPU that ran out, by a memory snapshot of torch: what filled it, and which remedies that speaks for."""

from __future__ import annotations

import pytest

from tests.importing.allocator import Device, MiB, called, moved, stepped
from tests.sentences import says


def test_a_full_device_names_what_fills_it(told):
    device = Device()
    [device.alloc(100 * MiB, moved()) for _ in range(4)]
    [device.alloc(200 * MiB, called(31)) for _ in range(8)]
    device.oom(500 * MiB, 90 * MiB, called(44))
    report = told(device)
    assert says(report.verdict.headline, "cuda:0", "no room", "500 MiB", "activations", "1.6 GiB")
    (finding,) = (f for f in report.findings if f.kind == "gpu-out-of-memory")
    assert finding.subject.line == 44 and finding.severity == "critical"
    assert any(says(evidence.text, "model.py:31", "1.6 GiB") for evidence in finding.evidence)
    assert any("checkpointing" in line for line in finding.remedy)
    assert not any("optimizer" in line for line in finding.remedy)
    assert not [f for f in report.findings if f.kind == "gpu-fragmentation"]


def test_an_optimizer_that_fills_the_device_gets_its_own_remedy(told):
    device = Device()
    device.alloc(100 * MiB, moved())
    [device.alloc(400 * MiB, stepped()) for _ in range(2)]
    device.alloc(1 * MiB, called(31))
    device.oom(50 * MiB, 0, called(44))
    (finding,) = told(device, "gpu-out-of-memory").findings
    assert any("8 bits" in line for line in finding.remedy) and not any("checkpointing" in x for x in finding.remedy)


def test_each_lever_says_what_it_may_give_and_whether_that_is_enough(told):
    device = Device()
    [device.alloc(200 * MiB, called(31)) for _ in range(4)]
    device.oom(600 * MiB, 100 * MiB, called(44))
    (finding,) = told(device, "gpu-out-of-memory").findings
    (line,) = (line for line in finding.remedy if "checkpointing" in line)
    assert says(line, "take 800 MiB, and 500 MiB were wanting", "accumulated over two (400 MiB, too little alone)")
    assert says(line, "save_on_cpu(), which keeps them on the host (800 MiB)")


@pytest.mark.parametrize(("asked", "is_advised"), [(300 * MiB, True), (30 * MiB, False)])
def test_only_a_large_request_is_worth_making_in_parts(told, asked, is_advised):
    """Of 1,200 MiB in use: the next small one would have failed in its place."""
    device = Device()
    [device.alloc(200 * MiB, called(31)) for _ in range(6)]
    device.oom(asked, 0, called(44))
    (finding,) = told(device, "gpu-out-of-memory").findings
    assert any("model.py:44" in line for line in finding.remedy) is is_advised


def test_an_error_that_was_caught_is_a_warning(told):
    device = Device()
    device.alloc(100 * MiB, moved())
    device.oom(500 * MiB, 90 * MiB, called(44))
    device.free(device.alloc(50 * MiB, called(44)))
    (finding,) = told(device, "gpu-out-of-memory").findings
    assert finding.severity == "warning" and any("went on" in doubt for doubt in finding.doubts)


def test_a_history_without_a_failure(told):
    device = Device()
    device.alloc(100 * MiB, moved())
    report = told(device, "gpu-out-of-memory")
    assert not report.findings and says(report.ruled_out[0].reason, "no allocation failed")
