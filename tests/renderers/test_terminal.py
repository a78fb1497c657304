"""The report at a terminal: the whole text, narrow and wide, without colour, and with a job's odd strings."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from leakscope.errors import BadInput
from leakscope.findings import Evidence, LedgerRow, Peak, RuledOut, Skipped, Subject
from leakscope.renderers import names, render
from leakscope.reporting import analyze
from leakscope.storage import open_recording
from leakscope.units import MiB
from tests.golden import RECORDINGS

from .reports import EMPTY, FULL, RETAINED

EXPECTED = """\
 LEAKING   cgroup full in about 12 min
Memory leaks: Trainer.history keeps every loss tensor.
python train.py  ·  21.4 s, 3 processes, exit status 0

1. critical: retained-objects · 600 MiB, 128 KiB per step, 97% sure
   train.py:88 in Trainer.step, held by Trainer.history (list), torch.Tensor
   float32
   > 88 self.history.append(loss)
   What to do  store loss.item(): frees about 600 MiB
   Evidence    the list grew from 120 to 5,000 members
   Doubts      sizes are estimated from a sample of the members
2. note: The model's weights live twice
   200 MiB, wasted, 80% sure · train.py (pid 4242) · duplicate-model

Where the growth went     start       end     growth
tensors ~              10.0 MiB   610 MiB   +600 MiB
native ~                100 MiB   142 MiB  +42.0 MiB
mapped-files           90.0 MiB  90.0 MiB        0 B
total                   200 MiB   842 MiB   +642 MiB

! output was lost after 3 s
Not checked: gpu-fragmentation · Ruled out: cyclic-garbage · Left out: 3 tables
(--verbose)
Recording cost: 0.6% of a core, 0.4% of the job's time in snapshots.
"""
ALL = """\
 LEAKING   cgroup full in about 12 min
Memory leaks: Trainer.history keeps every loss tensor.
python train.py  ·  21.4 s, 3 processes, exit status 0

1. critical: retained-objects
   train.py:88 in Trainer.step, held by Trainer.history (list), torch.Tensor
   float32
     87 for batch in data:
   > 88     self.history.append(loss)
     89 done()
   What to do
     · store loss.item(): frees about 600 MiB
   Evidence
     · the list grew from 120 to 5,000 members
   Doubts
     · sizes are estimated from a sample of the members
   600 MiB, 2.0 GiB per minute, 128 KiB per step, 97% sure · retained-objects ·
   path main() trainer.history[*] · train.py (pid 4242)

2. note: The model's weights live twice
   200 MiB, wasted, 80% sure · duplicate-model · train.py (pid 4242)

Where the growth went
  account           start        end      growth
  ──────────────────────────────────────────────
  tensors ~      10.0 MiB    610 MiB    +600 MiB
  native ~        100 MiB    142 MiB   +42.0 MiB
  mapped-files   90.0 MiB   90.0 MiB         0 B

  total           200 MiB    842 MiB    +642 MiB
  ~ estimated from snapshots of the heap

Largest holders, at 5.0 s and at 18.0 s
  holder                  what it is             at first    at last      gained
  ──────────────────────────────────────────────────────────────────────────────
  main()                  list of                20.0 MiB    570 MiB    +550 MiB
  trainer.history         torch.Tensor, 120 →
                          5,000
  main() config           dict                   70.0 MiB   70.0 MiB   unchanged

What the tensors are
  account       in the last snapshot (cpu)   peak of a step (cpu)
  ───────────────────────────────────────────────────────────────
  model                            400 MiB                400 MiB
  user-held                        600 MiB
  activations                                             900 MiB

  total                           1000 MiB                1.3 GiB

What lines allocated on cuda:0 of rank 0
  line                  what for           count   at the peak   at the snapshot
  ──────────────────────────────────────────────────────────────────────────────
  job/model.py:31       activations           24       900 MiB               0 B
  forward()
  no stack              before-recording       9       400 MiB           400 MiB

Ruled out
  · cyclic-garbage: calling gc.collect() will not help

Not checked
  · gpu-fragmentation: no GPU in this recording
  · output was lost after 3 s

Recording cost: 0.6% of a core, 0.4% of the job's time in snapshots, 11.4 MiB of
memory.
"""


def test_the_whole_text():
    assert render(FULL, "terminal", width=80, color=False) == EXPECTED
    assert render(FULL, "terminal", width=80, color=False, verbose=True) == ALL


@pytest.mark.parametrize("width", [40, 80, 160])
@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("report", [FULL, EMPTY], ids=["full", "empty"])
def test_no_line_is_wider_than_the_terminal(report, verbose, width):
    lines = render(report, "terminal", width=width, color=False, verbose=verbose).splitlines()
    assert max(map(len, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


@pytest.mark.parametrize(("part", "is_said"), [(2, True), (50, False)])
def test_that_snapshots_took_much_memory_is_said_also_briefly(part, is_said):
    known = FULL.recording
    taken = known.overhead | {"take_bytes": 600 * MiB // part}
    recording = dataclasses.replace(known, overhead=taken, peak=Peak(600 * MiB))
    text = render(dataclasses.replace(FULL, recording=recording), "terminal", width=80, color=False)
    assert ("of the job's time, 300 MiB in snapshots" in " ".join(text.split())) is is_said


def test_nothing_known_is_said_plainly():
    text = render(EMPTY, "terminal", width=80, color=False)
    assert text.startswith(" CANNOT TELL\n")
    assert "the recording is not complete" in text
    assert "Recording cost: not measured." in text


def test_colour_is_only_there_when_wanted(monkeypatch):
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in render(FULL, "terminal")
    assert "\x1b" in render(FULL, "terminal", color=True)
    monkeypatch.delenv("NO_COLOR")
    assert "\x1b" in render(FULL, "terminal")


def test_the_time_to_the_limit_can_be_read_beside_the_coloured_verdict():
    first = render(FULL, "terminal", color=True).partition("\n")[0]
    (colours,) = re.findall(r"\x1b\[([\d;]*)m[^\x1b]* full in ", first)
    assert not [code for code in colours.split(";") if code.startswith("4")], "it is on a ground of its own colour"


def test_strings_of_the_job_cannot_steer_the_terminal():
    odd = dataclasses.replace(
        RETAINED,
        title="[bold]list\x1b[2J\x07\x9b31m",
        subject=Subject(variable="a\rb\nc", file="caf\udce9.py", path="x\u202ey"),
    )
    report = dataclasses.replace(FULL, findings=[odd])
    text = render(report, "terminal", width=80, color=False, verbose=True)
    assert r"[bold]list\x1b[2J\x07\x9b31m" in text
    assert r"a\rb\nc" in text and r"caf\udce9.py" in text and r"x\u202ey" in text
    text.encode("utf-8")


def test_an_unknown_format_is_refused_with_those_there_are():
    assert {"json", "terminal"} <= set(names())
    with pytest.raises(BadInput, match="there is no format 'xml'"):
        render(FULL, "xml")


def test_what_was_ruled_out_is_a_line_until_it_is_asked_for():
    reason = "memory does not keep growing: varies around 386 MiB"
    report = dataclasses.replace(FULL, ruled_out=[RuledOut(k, reason, {}) for k in ("fragmentation", "native-growth")])
    text = render(report, "terminal", width=100, color=False)
    assert "Ruled out: fragmentation, native-growth · " in text
    text = render(report, "terminal", width=100, color=False, verbose=True)
    assert text.count(reason) == 1
    assert f"fragmentation, native-growth: {reason}" in text


def test_what_was_found_or_not_checked_somewhere_is_not_said_to_be_ruled_out():
    entries = [RuledOut(kind, "not in train.py[8]", {}) for kind in (RETAINED.kind, "crash", "refcount-drift")]
    skipped = [Skipped("refcount-drift", "train.py[9] was too short")]
    report = dataclasses.replace(FULL, findings=[RETAINED], ruled_out=entries, skipped=skipped)
    text = render(report, "terminal", width=100, color=False)
    assert "Not checked: refcount-drift · Ruled out: crash · " in text


def test_what_holder_and_type_both_say_is_said_once():
    subject = dataclasses.replace(RETAINED.subject, holder="Trainer.seen (OrderedDict)")
    subject = dataclasses.replace(subject, type="collections.OrderedDict of str, mostly torch.Tensor")
    report = dataclasses.replace(FULL, findings=[dataclasses.replace(RETAINED, subject=subject)])
    text = " ".join(render(report, "terminal", width=100, color=False).split())
    assert "held by Trainer.seen (OrderedDict of str, mostly torch.Tensor)" in text


def test_of_much_evidence_the_first_is_shown():
    evidence = [Evidence(f"figure number {n}") for n in range(9)]
    findings = [dataclasses.replace(one, evidence=evidence) for one in (RETAINED, RETAINED)]
    report = dataclasses.replace(FULL, findings=findings)
    text = render(report, "terminal", width=100, color=False)
    assert text.count("figure number 0") == 1
    assert text.count("figure number 8") == 0
    assert render(report, "terminal", width=100, color=False, verbose=True).count("figure number 8") == 2


def test_evidence_is_whole_where_there_is_room():
    said = (
        "main() trainer.history held 1.6 KiB in the first and 42.0 MiB in the last of 3 snapshots, from 9.4 s to 25.3 s"
    )
    report = dataclasses.replace(
        FULL, findings=[dataclasses.replace(RETAINED, evidence=[Evidence(said), Evidence("it grew")])]
    )
    for width in (80, 85, 109):
        text = render(report, "terminal", width=width, color=False)
        assert said in " ".join(text.split()) and len(text.splitlines()) <= 25
    assert "it grew" in render(report, "terminal", width=80, color=False, verbose=True)


def test_where_there_is_none_it_is_cut_at_a_clause():
    said = "the job held 42.0 MiB in the last of 3 snapshots, from 9.4 s to 25.3 s; " + "more of this " * 30
    crowded = dataclasses.replace(FULL.verdict, headline="Memory leaks: " + "a long story " * 150)
    findings = [dataclasses.replace(RETAINED, evidence=[Evidence(said)])]
    report = dataclasses.replace(FULL, verdict=crowded, findings=findings)
    assert "of 3 snapshots, from 9.4 s to 25.3 s\n" in render(report, "terminal", width=100, color=False)


def test_what_has_no_room_is_named_and_a_taller_terminal_shows_it():
    evidence = [Evidence(f"figure number {n}") for n in range(6)]
    findings = [dataclasses.replace(RETAINED, evidence=evidence)] * 3
    report = dataclasses.replace(FULL, findings=findings)
    small, tall = (render(report, "terminal", width=80, height=lines, color=False) for lines in (24, 60))
    assert len(small.splitlines()) <= 25 < len(tall.splitlines()) <= 58
    assert "figure number 5" not in small and "Left out: evidence," in small
    assert "figure number 5" in tall and "Left out" not in tall
    assert len(re.findall(r"^ *total ", tall, re.MULTILINE)) > len(re.findall(r"^ *total ", small, re.MULTILINE))


@pytest.mark.parametrize("crowd", [0, 12])
def test_the_rows_of_growth_that_are_shown_add_up(crowd):
    """Also where the screen has no room for all of them."""
    rows = [LedgerRow(f"account-{n}", "train.py[1]", 8 * MiB * n, 9 * MiB * n, MiB * n) for n in range(1, 8)]
    crowded = dataclasses.replace(FULL.verdict, headline="Memory leaks: " + "a long story " * crowd)
    text = render(dataclasses.replace(FULL, ledger=rows, verdict=crowded), "terminal", width=80, color=False)
    *shown, total = [
        [float(figure) for figure in re.findall(r"(\+?[\d.]+) MiB", line)]
        for line in re.split(r"\n(?!\S+ .*iB)", text.split("Where the growth went")[1])[0].split("\n")[1:]
    ]
    assert [sum(column) for column in zip(*shown)] == total == [224.0, 252.0, 28.0]


def test_findings_that_do_not_fit_are_counted():
    text = render(dataclasses.replace(FULL, findings=[RETAINED] * 7), "terminal", width=100, color=False)
    (more,) = map(int, re.findall(r"and (\d) more findings \(--verbose\)", text))
    assert len(re.findall(r"^\d\. critical:", text, re.MULTILINE)) + more == 7


def test_what_each_of_several_processes_gained_is_whole_on_a_narrow_screen():
    rows = [
        LedgerRow("python-objects", f"a_long_name_of_a_program.py[{pid}]", 0, 469 * MiB, 469 * MiB, estimated=True)
        for pid in (30857, 30858)
    ]
    text = render(dataclasses.replace(FULL, ledger=rows), "terminal", width=80, color=False)
    assert re.search(r"a_long_name_of_a_program\.py\[30857\] .* \+469 MiB\n", text)
    assert re.search(r"^total .* \+938 MiB$", text, re.MULTILINE)


@pytest.mark.golden
@pytest.mark.parametrize("name", ["fixtures-train_leaky", "fd_pileup-leaky"])
def test_a_report_is_one_screen(name):
    report = analyze(open_recording(RECORDINGS / f"{name}.parquet"))
    assert len(render(report, "terminal", width=80, color=False).splitlines()) <= 30
    assert len(render(report, "terminal", width=100, color=False).splitlines()) <= 25


@pytest.mark.cases(1)
@pytest.mark.golden
@pytest.mark.parametrize("name", ["fixtures-train_leaky", "loaders_pile_up_by_epoch-leaky", "fd_pileup-leaky"])
def test_the_first_screen_is_enough_to_act(name):
    report = analyze(open_recording(RECORDINGS / f"{name}.parquet"))
    first = report.findings[0]
    screen = "\n".join(render(report, "terminal", width=100, color=False).splitlines()[:25])
    words = " ".join(screen.split())
    assert first.title.lower() in words.lower()
    assert f"{Path(first.subject.file).name}:{first.subject.line} in " in words
    assert f"> {first.subject.line} " in words
    assert first.remedy[0] in words
    assert first.evidence[0].text[:40] in words


def test_what_a_job_has_nothing_of_is_not_said_until_it_is_asked_for():
    skipped = [Skipped("recompilation", "torch.compile was not used", applies=False), *FULL.skipped]
    report = dataclasses.replace(FULL, skipped=skipped)
    assert "recompilation" not in render(report, "terminal", width=100, color=False)
    assert "torch.compile was not used" in render(report, "terminal", width=100, color=False, verbose=True)


def test_tensors_that_are_hardly_any_of_the_process_have_no_table_until_it_is_asked_for():
    rows = [
        dataclasses.replace(row, account=account, bytes=size)
        for row, account, size in zip(FULL.tensor_budget, ("model", "not-tensors"), (1 << 20, 400 << 20))
    ]
    rows = [dataclasses.replace(row, moment="end") for row in rows]
    report = dataclasses.replace(FULL, tensor_budget=rows, ledger=[], heap=[], gpu_lines=[])
    assert "What the tensors are" not in render(report, "terminal", width=100, color=False)
    assert "What the tensors are" in render(report, "terminal", width=100, color=False, verbose=True)
