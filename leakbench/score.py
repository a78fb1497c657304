"""One answer held against the truth of its program, and the figures of many.

The rule, the same for every tool, written down before any was run:

- Only a tool's first answer counts, and for ``_3`` the first three; what it does not claim at all counts nowhere.
- *kind*: one of the kinds that truth.json allows. *holder*: the name of the variable, as a whole word in what the tool
  writes. *line*: the text of the line that a user would edit. *function*: a line in the function of that line, which is
  as near as a profiler of allocations may come: where memory is made is not always where it is kept.
- *advice*: its first remedy mends the mechanism by which the program keeps memory, one of those of truth.json. No other
  tool says what to do.
- *verdict*: growing or not, as truth.json has it. *alarm*, of clean programs: something is accused, or said to grow.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakbench.answer import HOLDER, KIND, LINE, VERDICT, Answer, function_of, place_of, text_of
from leakbench.tools.leakscope import OFFERS as OURS
from leakbench.tools.leakscope import answer_of
from tests.end_to_end.programs import Place, Program

Floats = NDArray[np.float64]
CONFIDENCE_BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


class Score(NamedTuple):
    """What one answer was right about; None: the truth asks nothing there, it is not offered, or it was not run.

    ``said`` is the first answer in short, or how the verdict reads if there is none; ``confidence`` is that answer's.
    ``kind`` to ``removed`` are of leaky programs, the last two of ours alone: whether the first remedy mends the
    mechanism, and how much of the growth is gone with the edit that follows it, 0 where none is certain. ``alarm`` is
    of clean ones. ``wall_s``, ``cpu_s`` and ``peak_bytes`` (resident, of the largest process) are of the whole command.
    """

    program: str
    leaky: bool
    torch: bool
    expected: str
    said: str
    verdict: bool | None = None
    kind: bool | None = None
    name: bool | None = None
    name_3: bool | None = None
    line: bool | None = None
    line_3: bool | None = None
    function: bool | None = None
    advice: bool | None = None
    removed: float | None = None
    alarm: bool | None = None
    confidence: float | None = None
    duration_s: float | None = None
    not_run: str | None = None
    tool: str = "leakscope"
    run: int = 1
    wall_s: float | None = None
    cpu_s: float | None = None
    peak_bytes: int | None = None

    @property
    def right(self) -> bool:
        return not self.not_run and not self.alarm and False not in (self.verdict, self.kind, self.name, self.line)

    @property
    def first_is_right(self) -> bool:
        """The first finding may be believed: it is of the right kind and names the right thing."""
        return self.leaky and False not in (self.kind, self.name)


def score(program: Program, report: dict[str, Any] | None, not_run: str = "") -> Score:
    """Judge one of our reports; without one, ``not_run`` says why."""
    if report is None:
        return score_of(program, None, OURS, not_run=not_run)
    scored = score_of(program, answer_of(report), OURS)
    first = report["findings"][0] if report["findings"] else None
    advice = _advises(first, program) if program.mechanisms else None
    return scored._replace(duration_s=report["recording"]["duration_s"], advice=advice)


def _advises(finding: dict[str, Any] | None, program: Program) -> bool:
    """The first remedy mends the mechanism by which the program keeps memory."""
    return finding is not None and bool(finding["remedy"]) and finding["mechanism"] in program.mechanisms


def score_of(
    program: Program, answer: Answer | None, offers: frozenset[str], tool: str = "leakscope", not_run: str = ""
) -> Score:
    """Judge what a tool said that claims ``offers``."""
    leaky = bool(program.places)
    expected = "; ".join(sorted(map(_in_short, program.places))) or "nothing"
    blank = Score(
        f"{program.path.parent.name}/{program.path.name}", leaky, uses_torch(program), expected, said=not_run,
        not_run=not_run or None, tool=tool,
    )  # fmt: skip
    if answer is None:
        return blank
    scored = blank._replace(
        said=_said(answer, offers, program),
        verdict=answer.leaking is program.grows if VERDICT in offers and program.grows is not None else None,
        confidence=answer.confidence,
    )
    if not leaky:
        return scored._replace(alarm=answer.alarmed or answer.leaking is True if VERDICT in offers else None)
    if KIND in offers:
        kinds = {place.kind for place in program.places} | set(program.kinds)
        scored = scored._replace(kind=bool(answer.kinds) and answer.kinds[0] in kinds)
    if HOLDER in offers and program.places[0].variable:
        names = {place.variable for place in program.places if place.variable} | set(program.names)
        found = [any(re.search(rf"\b{re.escape(name)}\b", holder) for name in names) for holder in answer.holders[:3]]
        scored = scored._replace(name=found[:1] == [True], name_3=True in found)
    texts = {place.line_text for place in program.places if place.line_text}
    if LINE in offers and texts:
        right = [text_of(place, program.path) in texts for place in answer.lines[:3]]
        wanted = {function_of(place, program.path) for text in texts if (place := place_of(text, program.path))} - {
            None
        }
        inside = [function_of(place, program.path) in wanted for place in answer.lines[:1]]
        scored = scored._replace(line=right[:1] == [True], line_3=True in right)
        scored = scored._replace(function=scored.line or inside == [True] if wanted else None)
    return scored


_VERDICTS = {True: "leaking", False: "not leaking", None: "cannot tell"}


def uses_torch(program: Program) -> bool:
    if program.path.suffix != ".py":
        return True  # a snapshot of its allocator
    return re.search(r"^\s*(import|from) torch\b", program.path.read_text(), re.MULTILINE) is not None


def _in_short(place: Place) -> str:
    return _words(place.kind, place.variable, place.line_text)


def _words(kind: str, variable: str | None, line_text: str | None) -> str:
    return kind + (f" of {variable}" if variable else "") + (f" at {line_text}" if line_text else "")


def _said(answer: Answer, offers: frozenset[str], program: Program) -> str:
    line = text_of(answer.lines[0], program.path) if answer.lines else None
    said = _words(answer.kinds[0] if answer.kinds else "", answer.holders[0] if answer.holders else None, line).strip()
    return said or (_VERDICTS[answer.leaking] if VERDICT in offers else "nothing")


class Share(NamedTuple):
    """So many of so many."""

    count: int  # type: ignore[assignment]  # and not what tuples count
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}" + (f" ({self.count / self.of:.0%})" if self.of else "")


def share(scores: Iterable[Score], field: Callable[[Score], bool | None]) -> Share:
    """How many have it true, of those where it is asked for."""
    values = [value for value in map(field, scores) if value is not None]
    return Share(sum(values), len(values))


def agreement(scores: Iterable[Score]) -> Share:
    """Of how many programs that ran more than once every run gave the same answer."""
    answers: dict[str, list[tuple[str, bool | None]]] = {}
    for s in scores:
        answers.setdefault(s.program, []).append((s.said, s.verdict))
    several = [said for said in answers.values() if len(said) > 1]
    return Share(sum(len(set(said)) == 1 for said in several), len(several))


def interval(right: Share) -> tuple[float, float]:
    """Between which shares the true one lies, 95 times in a hundred (Wilson's interval)."""
    z = 1.96
    share, of = right.count / right.of, right.of
    middle = (share + z * z / (2 * of)) / (1 + z * z / of)
    reach = z / (1 + z * z / of) * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, min(share, middle - reach)), min(1.0, max(share, middle + reach))


def calibration(scores: Sequence[Score]) -> list[tuple[str, float, Share]]:
    """(bin of confidence, its mean, share that was right) over all first findings, false alarms among them."""
    rows = []
    for low, high in zip(CONFIDENCE_BINS, CONFIDENCE_BINS[1:]):
        inside = [
            s for s in scores if s.confidence is not None and (low < s.confidence <= high or s.confidence == low == 0)
        ]
        if inside:
            mean = sum(s.confidence or 0.0 for s in inside) / len(inside)
            rows.append((f"{low:.0%} to {high:.0%}", mean, share(inside, lambda s: s.first_is_right)))
    return rows


def fitted(scores: Iterable[Score]) -> list[tuple[float, float, Share]]:
    """(lowest and highest confidence, share that was right), rising: the monotone steps that fit first findings best.

    Neighbours of which the surer were less often right are one step (pool adjacent violators).
    """
    steps: list[tuple[float, float, Share]] = []
    told = sorted((s.confidence, s.first_is_right) for s in scores if s.confidence is not None)
    for sure, several in groupby(told, key=lambda one: one[0]):
        right = [is_right for _, is_right in several]
        step = sure, sure, Share(sum(right), len(right))
        while steps and steps[-1][2].count * step[2].of >= step[2].count * steps[-1][2].of:
            low, _, before = steps.pop()
            step = low, step[1], Share(before.count + step[2].count, before.of + step[2].of)
        steps.append(step)
    return steps


def told_and_corrected(scores: Iterable[Score], folds: int = 10) -> tuple[float, float]:
    """The log loss of confidences as they are told, and as one correction of all would tell them (of log odds: a factor
    and a term), each tried on the programs to which it was not fitted.
    """
    known = [s for s in scores if s.confidence is not None]
    sure = np.array([s.confidence for s in known], dtype=np.float64)
    odds, right = np.log(sure / (1 - sure)), np.array([s.first_is_right for s in known], dtype=np.float64)
    number = {name: at % folds for at, name in enumerate(sorted({s.program.rpartition("/")[0] for s in known}))}
    fold = np.array([number[s.program.rpartition("/")[0]] for s in known])
    corrected = np.zeros(len(known))
    for at in range(folds):
        factor, term = _fit_odds(odds[fold != at], right[fold != at])
        corrected[fold == at] = factor * odds[fold == at] + term
    return _log_loss(odds, right), _log_loss(corrected, right)


def _fit_odds(odds: Floats, right: Floats) -> tuple[float, float]:
    """Logistic regression, by Newton's method; what is told stands for a finding's worth of it."""
    told = np.array([1.0, 0.0])
    inputs, weights = np.stack([odds, np.ones_like(odds)], axis=1), told

    def loss(at: Floats) -> float:
        return _log_loss(inputs @ at, right) * len(right) + float(np.square(at - told).sum()) / 2

    for _ in range(50):
        likely = 1 / (1 + np.exp(-inputs @ weights))
        curved = inputs.T @ (inputs * (likely * (1 - likely))[:, None]) + np.eye(2)
        step = np.linalg.solve(curved, inputs.T @ (likely - right) + weights - told)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
    return float(weights[0]), float(weights[1])


def _log_loss(odds: Floats, right: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, odds) - right * odds))
