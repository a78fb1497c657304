"""The brief: small whatever the report holds, complete enough to act on, and its commands are those to type."""

from __future__ import annotations

import dataclasses
import re
import shlex

import pytest

from leakscope.findings import Edit, Report, Verdict
from leakscope.renderers import render

from .hostile import STRINGS, full_of
from .reports import EMPTY, FULL
from .test_markdown import tags, words

SHOWN = """\
**LEAKING**: Trainer.history keeps every loss tensor.

`python train.py` · 21.4 s, 3 processes, exit status 0

**1. Trainer.history keeps every loss tensor** (critical, 600 MiB, 2.0 GiB per minute, 128 KiB per step, 97% sure)
`train.py:88` in `Trainer.step`
held by `Trainer.history (list)`, path `main() trainer.history[*]`, type `torch.Tensor float32`

```python
  87 for batch in data:
> 88     self.history.append(loss)
  89 done()
```

- Why: the list grew from 120 to 5,000 members
- Doubt: sizes are estimated from a sample of the members
- Do: store loss.item(): frees about 600 MiB

Also: 2. The model's weights live twice

Fix it, then prove it:

```bash
leakscope record -o after.parquet -- python train.py
leakscope compare run.parquet after.parquet  # a fix: "Better", the finding gone
```

Not checked: output was lost after 3 s
"""


def changed(verdict: Verdict | None = None, **facts) -> Report:
    recording = dataclasses.replace(FULL.recording, **facts)
    return dataclasses.replace(FULL, recording=recording, verdict=verdict or FULL.verdict)


def commands(brief: str) -> list[list[str]]:
    block = re.search(r"^(```+)bash\n(.*?)^\1$", brief, re.DOTALL | re.MULTILINE)
    return [shlex.split(line, comments=True) for line in block[2].splitlines()]


def test_all_that_is_needed_to_act_and_nothing_else():
    assert render(FULL, "brief") == SHOWN == render(FULL, "brief")


def test_who_cannot_tell_says_why_and_what_to_record():
    shown = render(EMPTY, "brief")
    assert shown.startswith("**CANNOT TELL**: ")
    assert "Not checked: " in shown and "the recording is not complete" in shown
    assert commands(shown)[0][:3] == ["leakscope", "attach", "-o"], "its command is not known"
    assert commands(shown)[1] == ["leakscope", "report", "longer.parquet", "-f", "brief"]


def test_of_a_service_it_says_to_serve_as_much_as_before():
    shown = render(changed(dataclasses.replace(FULL.verdict, step_unit="request")), "brief")
    assert "as many requests as before" in shown
    assert commands(shown)[0] == ["leakscope", "record", "-o", "after.parquet", "--", "python", "train.py"]


def test_who_cannot_tell_is_shown_who_holds_what_where_that_is_known():
    shown = render(dataclasses.replace(EMPTY, heap=FULL.heap), "brief")
    assert commands(shown)[2][:2] == ["leakscope", "heap"]
    assert FULL.heap


def test_where_nothing_is_wrong_it_names_the_gate():
    flat = Verdict(False, False, "No leak: memory does not keep growing.", 0)
    shown = render(dataclasses.replace(changed(flat), findings=()), "brief")
    assert commands(shown) == [["leakscope", "check", "run.parquet"]]
    assert "gpu-fragmentation" not in shown, "no GPU was there to be looked at"


def test_looks_that_failed_or_were_not_possible_are_told_where_nothing_explains_the_growth():
    grows = dataclasses.replace(FULL, findings=())
    assert "retained-objects: the recording has no takes" not in render(grows, "brief")
    skipped = [dataclasses.replace(FULL.skipped[0], kind="retained-objects", reason="the recording has no takes")]
    assert "retained-objects: the recording has no takes" in render(
        dataclasses.replace(grows, skipped=skipped), "brief"
    )
    failed = [dataclasses.replace(skipped[0], reason="failed: KeyError: 'x'")]
    assert "failed: KeyError" in render(dataclasses.replace(FULL, skipped=failed), "brief")


def test_files_are_named_from_the_folder_of_the_job():
    command = ["python", "/home/me/job/train.py", "--data", "/data/job/x"]
    shown = render(changed(cwd="/home/me/job/", path="/home/me/job/runs/a b.parquet", command=command), "brief")
    first, second = commands(shown)
    assert first[4:] == ["--", "python", "train.py", "--data", "/data/job/x"]
    assert second[:4] == ["leakscope", "compare", "runs/a b.parquet", "after.parquet"]
    assert "/home/me" not in shown
    assert "python /home/me/job/train.py" in render(changed(cwd="/", command=command), "brief")


def test_a_fix_is_recorded_under_another_name():
    assert commands(render(changed(path="after.parquet"), "brief"))[1][2:] == ["after.parquet", "fixed.parquet"]


@pytest.mark.parametrize("command", [["python", "-c", "import x\nx()"], ["python", "x" * 5000]])
def test_what_nobody_could_type_is_a_placeholder(command):
    assert commands(render(changed(command=command), "brief"))[0][4:] == ["--", "COMMAND"]


@pytest.mark.parametrize("strings", [*([s] for s in STRINGS), STRINGS, ["\U0001f4a5`" * 400], ["\x07\ud800" * 900]])
@pytest.mark.parametrize("count", [1, 50])
def test_it_is_small_whatever_the_report_holds(strings, count):
    shown = render(full_of(strings, count), "brief")
    assert len(shown.encode("utf-8")) < 2000
    assert shown.startswith("**LEAKING")
    assert commands(shown)[1][:2] == ["leakscope", "compare"]
    assert not tags(shown), "nothing of the job is markup"
    assert not re.search(r"@\w|#\d", words(shown)), "nobody is pinged, no issue is linked"


def test_an_edit_is_shown_by_the_lines_that_go_and_come():
    edit = Edit("--- a/train.py\n+++ b/train.py\n@@ -1 +1 @@\n-keep(loss)\n+keep(loss.item())\n", "floats are kept")
    edited = dataclasses.replace(FULL, findings=[dataclasses.replace(FULL.findings[0], edit=edit)])
    shown = render(edited, "brief").split("\n")
    assert shown[shown.index("```diff") + 1 :][:4] == ["@@ -1 +1 @@", "-keep(loss)", "+keep(loss.item())", "```"]
    assert "- Mind: floats are kept" in shown


def test_who_gets_no_edit_is_told_why_and_what_else_may_be_done():
    finding = dataclasses.replace(FULL.findings[0], edit=Edit(None, "all are read"), remedy=["keep one", "or a sum"])
    shown = render(dataclasses.replace(FULL, findings=[finding]), "brief").split("\n")
    assert shown[shown.index("- Do: keep one") + 1 :][:2] == [
        "- Or: or a sum",
        "- No edit is certain enough: all are read",
    ]
