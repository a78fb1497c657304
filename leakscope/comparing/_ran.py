"""What ran in each of two recordings, and how it ended: another program, or a run that failed, is no mended one.

A fix is often a copy of the program under another name. So what differs in name is the same program if most of its
lines are the same.
"""

from __future__ import annotations

import os.path
import re
import shlex
from collections import Counter
from collections.abc import Sequence

from ..facts import imported
from ..facts.case import Case
from ..findings import RecordingFacts, Report
from ..kinds import CRASH
from ..words import ended

# Of the lines of the shorter of two programs. Fixes of one program share 0.88 and more, two programs up to 0.5.
_SAME_UNDER_ANOTHER_NAME = 0.65
_OTHER_UNDER_THE_SAME_NAME = 0.2
_LEAST_LINE = 4  # characters: brackets and else: are in all programs
_MAIN = ("__main__", "__mp_main__")
_PYTHON = re.compile(r"python[0-9.]*[a-z]?$")
_ASKED_TO_END = (2, 15)  # SIGINT, SIGTERM: how a service or a run that has done enough is ended
_MOST = 60  # characters of a command in a sentence


def same_recording(before: Case, after: Case) -> bool:
    """Whether both are one file, or a copy of it under another name: no two runs read the same figures all along."""
    if before.recording.location == after.recording.location:
        return True
    one, two = before.rows("process_samples"), after.rows("process_samples")
    return len(one) > 0 and before.recording.ended == after.recording.ended and one.to_pandas().equals(two.to_pandas())


def another_program(before: Case, after: Case) -> str:
    """What the two ran, in a sentence; empty where it is the same program, or one of the commands is not known."""
    one, two = (_words(case) for case in (before, after))
    if not one or not two or any(_is_imported(case) for case in (before, after)):
        return ""  # other tools write down no source: a copy under another name looks like another program
    share, is_alike = _share(_text(before, one), _text(after, two)), program(one) == program(two)
    which = f"{shown(one)} before, {shown(two)} after"
    if share is None:  # their names are all that is known
        return "" if is_alike else f"this may be another program, its source was not recorded: {which}"
    least = _OTHER_UNDER_THE_SAME_NAME if is_alike else _SAME_UNDER_ANOTHER_NAME
    return f"another program ran: {which}" if share < least else ""


def other_options(before: Sequence[str], after: Sequence[str]) -> str:
    """In what two commands of one program differ, in words."""
    if not before or not after or (one := _plain(before)) == (two := _plain(after)):
        return ""
    alike = _alike_at_the_start(one, two)
    at_end = _alike_at_the_start(one[alike:][::-1], two[alike:][::-1])
    kept = [shown(words[alike : len(words) - at_end]) or "nothing" for words in (one, two)]
    return f"the command differs: {kept[0]} before, {kept[1]} after"


def failure(report: Report) -> str:
    """``failed, exit status 1``; empty for one that ended well, was asked to end, or whose end is not known."""
    recording = report.recording
    if recording.ended == "oom-killed":
        return "was killed for lack of memory"
    if _has_failed(recording) or any(f.tells(CRASH) and f.severity == "critical" for f in report.findings):
        how = ended(recording)
        return f"failed, {how}" if how.startswith("exit") else how if how.startswith("crashed") else f"was {how}"
    return ""


def ended_alike(before: RecordingFacts, after: RecordingFacts) -> bool:
    """Whether both came to the same end."""
    return all(getattr(before, name) == getattr(after, name) for name in ("ended", "exit_code", "signal"))


def program(command: Sequence[str]) -> str:
    """What a command runs, whichever interpreter or launcher starts it: ``train.py``, ``pytest``, ``-c``."""
    script = next((word for word in command if word.endswith(".py")), None)
    if script is not None:
        return os.path.basename(script)
    if _is_python(command[0]):
        for at, word in enumerate(command[1:-1], 1):
            if word in ("-m", "-c"):
                return command[at + 1] if word == "-m" else word
    return os.path.basename(command[0])


def shown(command: Sequence[str]) -> str:
    """As it was typed, in one line, shortened."""
    text = " ".join(shlex.join(command).split())
    return text if len(text) <= _MOST else f"{text[: _MOST - 1]}…"


def _words(case: Case) -> list[str]:
    return [str(word) for word in case.recording.meta.get("command") or ()]


def _is_imported(case: Case) -> bool:
    return case.recording.meta.get("imported") is True or bool(imported.files(case.recording))


def _plain(command: Sequence[str]) -> list[str]:
    """One interpreter is as good as another."""
    return ["python" if _is_python(word) else word for word in command[:1]] + list(command[1:])


def _alike_at_the_start(one: Sequence[str], two: Sequence[str]) -> int:
    return next((at for at, (word, other) in enumerate(zip(one, two)) if word != other), min(len(one), len(two)))


def _is_python(word: str) -> bool:
    return _PYTHON.match(os.path.basename(word)) is not None


def _has_failed(recording: RecordingFacts) -> bool:
    if recording.ended == "signal":
        return recording.signal not in _ASKED_TO_END
    return bool(recording.exit_code) and recording.exit_code not in [128 + number for number in _ASKED_TO_END]


def _text(case: Case, command: Sequence[str]) -> str | None:
    """What it ran, in source; None where nobody wrote that down."""
    if program(command) == "-c":
        return command[command.index("-c") + 1].replace(";", "\n")
    name = program(command)
    own = (s.text for s in case.sources if s.module in _MAIN or os.path.basename(s.file) == name)
    return next(own, None)


def _share(one: str | None, two: str | None) -> float | None:
    """Of the lines of the shorter: how many the other has as well. None where one of them is not known."""
    if one is None or two is None:
        return None
    first, second = (Counter(filter(_counts, map(str.strip, text.splitlines()))) for text in (one, two))
    shorter = min(sum(first.values()), sum(second.values()))
    return sum((first & second).values()) / shorter if shorter else None


def _counts(line: str) -> bool:
    return len(line) >= _LEAST_LINE
