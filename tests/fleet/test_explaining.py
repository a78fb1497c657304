"""What separates some from the others is told if the data says so, and not if chance could."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.fleet.explaining import IN, NOT_IN, SINCE, attribute, regions


def everyone(count):
    return np.ones(count, dtype=bool)


def conditions(positive, *attributes):
    found = regions(positive, everyone(len(positive)), attributes)
    return [(one.attribute, one.op, list(one.values)) for region in found for one in region.conditions]


def test_one_value_of_many():
    node = np.repeat(np.arange(50), 8)
    assert conditions(node == 7, attribute("node", node)) == [("node", IN, [7])]


def test_all_but_one_value_is_told_as_not():
    driver = np.tile(["550", "560", "570", "580"], 50)
    assert conditions(driver != "550", attribute("driver", driver)) == [("driver", NOT_IN, ["550"])]


def test_a_threshold_of_what_has_an_order():
    attempt = np.repeat(np.arange(1, 7), 30)
    assert conditions(attempt >= 3, attribute("attempt", attempt, range(1, 7))) == [("attempt", SINCE, [3])]


def test_the_cheaper_of_two_that_choose_the_same_and_the_other_beside_it():
    node = np.repeat(np.arange(40), 8)
    driver = np.where(node % 2 == 0, "550", "560")
    (region,) = regions(driver == "550", everyone(len(node)), [attribute("node", node), attribute("driver", driver)])
    assert [one.attribute for one in region.conditions] == ["driver"], "twenty nodes are dearer than one driver"
    model = np.where(node % 2 == 0, "H100", "H200")
    (region,) = regions(driver == "550", everyone(len(node)), [attribute("driver", driver), attribute("model", model)])
    assert {region.conditions[0].attribute, *(one.attribute for one in region.conditions[0].same)} == {
        "driver",
        "model",
    }


@pytest.mark.parametrize("seed", range(20))
def test_chance_is_not_explained(seed):
    rng = np.random.default_rng(seed)
    count = 800
    attributes = [attribute(f"a{n}", rng.integers(0, size, count)) for n, size in enumerate((2, 3, 8, 40, 100, 400))]
    attributes.append(attribute("order", rng.integers(0, 9, count), range(9)))
    assert conditions(rng.random(count) < 0.05, *attributes) == []


def test_what_has_no_value_is_chosen_by_no_condition():
    rank = np.array([None] * 100 + list(range(100)), dtype=object)
    found = conditions(np.arange(200) < 100, attribute("rank", rank))
    assert found == []


def test_within_a_job_though_ranks_repeat_in_others():
    job, rank = np.repeat(["a", "b", "c"], 320), np.tile(np.repeat(np.arange(64), 5), 3)
    positive = (job == "b") & (rank == 12)
    assert conditions(positive, attribute("job", job), attribute("rank", rank)) == [
        ("job", IN, ["b"]),
        ("rank", IN, [12]),
    ]


def test_two_that_happened_to_run_on_one_node_are_two_reasons():
    """A rank of a job and a pod of a service, killed each time, on a node where nobody else is."""
    rank = np.array([*np.repeat(np.arange(60), 3), *[None] * 90], dtype=object)
    pod = np.array([*[None] * 180, *np.repeat(np.arange(30), 3)], dtype=object)
    node = np.array([*np.repeat(np.arange(10), 18), *np.repeat(np.arange(10), 9)])
    killed = (rank == 1) | (pod == 1)
    job = np.where(rank == None, "api", "train")  # noqa: E711 (of each element)
    columns = {"job": job, "rank": rank, "pod": pod, "node": node}
    attributes = [attribute(name, column) for name, column in columns.items()]
    found = regions(killed, everyone(len(node)), attributes)
    assert [(one.hit, one.inside) for one in found] == [(3, 3), (3, 3)]
    assert {one.conditions[-1].attribute for one in found} == {"rank", "pod"}
