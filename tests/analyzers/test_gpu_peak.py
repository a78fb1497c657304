"""What made the peak of a GPU, by a memory snapshot of torch."""

from __future__ import annotations

from tests.importing.allocator import Device, MiB, called, moved
from tests.sentences import says


def test_the_peak_names_the_line_that_makes_it(told):
    device = Device()
    device.alloc(200 * MiB, moved())
    scores = [device.alloc(150 * MiB, called(7, "softmax")) for _ in range(3)]
    for address in scores:
        device.free(address)
    (finding,) = told(device, "gpu-peak").findings
    assert finding.subject.line == 7 and says(finding.title, "650 MiB", "450 MiB", "softmax")
    assert "scaled_dot_product_attention" in finding.remedy[0]


def test_what_was_there_before_the_history_has_no_line_to_be_named(told):
    device = Device()
    device.records = False
    before = device.alloc(700 * MiB)
    device.records = True
    device.alloc(100 * MiB, called(7))
    device.free(before)
    (finding,) = told(device, "gpu-peak").findings
    assert says(finding.title, "800 MiB", "700 MiB", "before the history") and finding.subject.line is None


def test_what_memory_did_between_marks(told):
    device = Device()
    device.alloc(100 * MiB, moved())
    device.mark("START", "encode")
    kept, scratch = device.alloc(30 * MiB, called(7)), device.alloc(400 * MiB, called(8))
    device.free(scratch)
    device.mark("END", "encode")
    (finding,) = told(device, "gpu-peak").findings
    (text,) = (evidence.text for evidence in finding.evidence if "marks" in evidence.text)
    assert kept and says(text, "encode", "+30.0 MiB in 1", "the peak lies in encode")


def test_a_peak_that_stays_is_no_news(told):
    device = Device()
    device.alloc(900 * MiB, moved())
    device.free(device.alloc(20 * MiB, called(31)))
    report = told(device, "gpu-peak")
    assert not report.findings and says(report.ruled_out[0].reason, "what stays", "model")
