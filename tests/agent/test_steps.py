"""Optimizer steps are counted, each of them, and few are looked at: in real trainings, in processes of their own."""

from __future__ import annotations

import json

import pytest

from .forks import Forks

pytestmark = [pytest.mark.live, pytest.mark.torch, pytest.mark.xdist_group("torch-forks")]

SETUP = """
import json, torch
from leakscope.agent.snapshots import steps as counting

looked, wanted = [], []
def on_step():
    looked.append(steps.count)
    return bool(wanted)
steps = counting.Steps(on_step)
import sys
steps._install(None, sys.modules["torch.optim.optimizer"])

def optimizer():
    parameter = torch.zeros(2, requires_grad=True)
    parameter.grad = torch.ones(2)
    return torch.optim.SGD([parameter], 0.1)
"""


def ran(forks: Forks, script: str) -> dict[str, int]:
    found: dict[str, int] = json.loads(forks.run(f"{SETUP}{script}\nprint(json.dumps(told))"))
    return found


def test_every_step_is_counted_and_few_are_looked_at(forks: Forks) -> None:
    told = ran(
        forks,
        """
one = optimizer()
for _ in range(100): one.step()  # nobody asks: the thread of the agent may not run
told = {"unasked": len(looked)}
steps.look()
for _ in range(1000): one.step()
told |= {"asked once": len(looked), "count": steps.count}
steps.look()
for _ in range(10): one.step()
told |= {"asked again": len(looked), "last": looked[-1], "count at last": steps.count}
""",
    )
    assert told["unasked"] == 100
    assert told["asked once"] == 101
    assert told["count"] == 1100
    assert told["asked again"] == 111
    assert told["last"] == told["count at last"] == 1110


def test_all_are_looked_at_while_one_is_waited_for(forks: Forks) -> None:
    told = ran(
        forks,
        """
one = optimizer()
steps.look()
wanted.append(1)
for _ in range(500): one.step()
told = {"waited for": len(looked)}
wanted.clear()
for _ in range(500): one.step()
told["then"] = len(looked)
""",
    )
    assert told == {"waited for": 500, "then": 501}


def test_of_several_optimizers_the_one_that_steps_most_often_counts(forks: Forks) -> None:
    """As a GAN has them: five steps of one for each of the other, most of which nobody looks at."""
    told = ran(
        forks,
        """
one, other = optimizer(), optimizer()
for _ in range(40): one.step()
told = {"of one": steps.count}
for at in range(6000):
    if at % 500 == 0: steps.look()
    (other if at % 6 == 5 else one).step()
told |= {"of both": steps.count, "looked at": len(looked)}
""",
    )
    assert told["of one"] == 40
    assert told["of both"] == pytest.approx(40 + 5000, rel=0.06)
    assert told["looked at"] < 400


def test_the_step_that_ends_an_evaluation_is_looked_at(forks: Forks) -> None:
    told = ran(
        forks,
        """
from leakscope.agent.life import phases
phase = phases.Phases(lambda name: None, steps.look_at_next)
steps._on_step = lambda: (looked.append(1), phase.stepped()) and False
one = optimizer()
steps.look()
for _ in range(100): one.step()
before = len(looked)
phase.enter(phases.EVAL)
one.step()
told = {"after": len(looked) - before, "trains": phase.current == phases.TRAIN}
""",
    )
    assert told == {"after": 1, "trains": True}


def test_an_optimizer_that_follows_on_another_goes_on_from_there(forks: Forks) -> None:
    """As warm restarts, folds and trials make one each: training takes as many steps as all of them."""
    told = ran(
        forks,
        """
kept, counts = [], []
for trial in range(150):
    kept.append(optimizer())
    for at in range(100):
        if at % 50 == 0: steps.look()
        kept[-1].step()
    counts.append(steps.count)
told = {"last": counts[-1], "falls": sum(b < a for a, b in zip(counts, counts[1:]))}
""",
    )
    assert told["last"] == pytest.approx(15000, rel=0.06) and told["falls"] == 0


def test_nobody_asks_and_there_are_ever_new_optimizers(forks: Forks) -> None:
    told = ran(
        forks,
        """
kept, counts = [], []
for trial in range(1000):
    kept.append(optimizer())
    kept[-1].step()
    counts.append(steps.count)
told = {"known": len(steps._looked_at), "falls": sum(b < a for a, b in zip(counts, counts[1:]))}
""",
    )
    assert told["known"] <= 64 and told["falls"] == 0
