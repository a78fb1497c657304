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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leakbench.answer import HOLDER, KIND, LINE, VERDICT, Answer, function_of, place_of, text_of
from leakbench.tools.leakscope import OFFERS as OURS
from leakbench.tools.leakscope import answer_of
from leakscope.confidence import LEVELS
from tests.end_to_end.programs import Place, Program

Floats = NDArray[np.float64]
CONFIDENCE_BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


class Score(NamedTuple):
    """What one answer was right about; None: the truth asks nothing there, it is not offered, or it was not run.

    ``said`` is the first answer in short, or how the verdict reads if there is none; ``confidence`` and ``grounds`` are
    that answer's.
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
    grounds: Sequence[float] | None = None
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
        grounds=answer.grounds or None,
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


class Level(NamedTuple):
    """How sure one ground alone makes: as it is told, and as first findings that were right or wrong have it.

    ``low`` and ``high``: between which the fitted one lies, 95 times in a hundred. ``count``: of grounds of this level.
    """

    told: float
    fitted: float
    low: float
    high: float
    count: int  # type: ignore[assignment]  # and not what tuples count


def levels(scores: Iterable[Score]) -> list[Level]:
    """The levels of ``leakscope.confidence``, each fitted by logistic regression: the odds of independent grounds
    multiply, so that the log odds of a finding are a sum over its grounds.
    """
    inputs, right, _ = _grounds(scores)
    told = _log_odds(np.array(LEVELS))
    weights, spread = _fit_odds(inputs, right, told)
    found = [_sure(weights + reach * spread).tolist() for reach in (0.0, -1.96, 1.96)]
    counts = np.count_nonzero(inputs, axis=0).tolist()
    return [Level(*row) for row in zip(LEVELS, *found, counts) if row[-1]]


def told_and_fitted(scores: Iterable[Score], folds: int = 10) -> tuple[float, float]:
    """The log loss of first findings by the levels as they are told, and as they are fitted, each tried on the programs
    to which it was not fitted.
    """
    inputs, right, programs = _grounds(scores)
    told = _log_odds(np.array(LEVELS))
    number = {name: at % folds for at, name in enumerate(sorted(set(programs)))}
    fold = np.array([number[name] for name in programs])
    fitted = np.zeros(len(right))
    for at in range(folds):
        fitted[fold == at] = inputs[fold == at] @ _fit_odds(inputs[fold != at], right[fold != at], told)[0]
    return _log_loss(inputs @ told, right), _log_loss(fitted, right)


def _grounds(scores: Iterable[Score]) -> tuple[Floats, Floats, list[str]]:
    """Of each first finding: how much of each level its grounds have, whether it was right, and its program.

    A ground between two levels is as much of the nearest as makes it as sure.
    """
    known = [s for s in scores if s.grounds]
    levels_odds = _log_odds(np.array(LEVELS))
    inputs = np.zeros((len(known), len(LEVELS)))
    for row, s in zip(inputs, known):
        for odds in _log_odds(np.array(s.grounds)):
            nearest = int(np.argmin(np.abs(levels_odds - odds)))
            row[nearest] += odds / levels_odds[nearest]
    right = np.array([s.first_is_right for s in known], dtype=np.float64)
    return inputs, right, [s.program.rpartition("/")[0] for s in known]


def _fit_odds(inputs: Floats, right: Floats, told: Floats) -> tuple[Floats, Floats]:
    """Logistic regression, by Newton's method, and the spread of each weight; what is told stands for a finding's worth
    of it.
    """
    weights = told

    def loss(at: Floats) -> float:
        return _log_loss(inputs @ at, right) * len(right) + float(np.square(at - told).sum()) / 2

    for _ in range(50):
        curved = _curvature(inputs, weights)
        step = np.linalg.solve(curved, inputs.T @ (_sure(inputs @ weights) - right) + weights - told)
        while loss(weights - step) > loss(weights) and np.abs(step).max() > 1e-9:
            step = step / 2
        weights = weights - step
    return weights, np.sqrt(np.diag(np.linalg.inv(_curvature(inputs, weights))))


def _curvature(inputs: Floats, weights: Floats) -> Floats:
    likely = _sure(inputs @ weights)
    curved: Floats = inputs.T @ (inputs * (likely * (1 - likely))[:, None]) + np.eye(len(weights))
    return curved


def _sure(odds: Floats) -> Floats:
    return 1 / (1 + np.exp(-odds))


def _log_odds(sure: Floats) -> Floats:
    return np.log(sure / (1 - sure))


def _log_loss(odds: Floats, right: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, odds) - right * odds))
