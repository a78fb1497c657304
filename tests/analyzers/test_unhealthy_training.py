"""Unhealthy training: NaN, parameters that vanish, no gradients; and the many ways to look so and be well."""

from __future__ import annotations

import pytest

from tests.sentences import says

from .asking import asked
from .leaks import PID, trainer

HEALTHY = {"ok": 10}


def trained(folder, *takes, weights=(), tensors=()):
    """A trainer whose inventories saw these states: {state: count or names}, one take for each, 100 steps apart."""
    builder = trainer(folder, leak=0)
    for number, states in enumerate(takes, 1):
        at_s = 2.0 * number
        builder.take(PID, number, at_s, step=100 * number, safe_point="optimizer-step")
        for state, members in states.items():
            named = members if isinstance(members, list) else [None]
            for name in named:
                count = members if name is None else 1
                row = {"weight_set": "main() model", "tensor_name": name, "parameter_count": count}
                builder.row("gradients", at_s, PID, take=number, gradient_state=state, **row)
    for number, print_ in enumerate(weights, 1):
        row = {"weight_set": "main() model", "tensor_name": "0.weight", "requires_grad": True, "fingerprint": print_}
        builder.row("weights", 2.0 * number, PID, take=number, tensor_owner="parameter", **row)
    for owner in tensors:
        builder.row("tensors", 2.0, PID, take=1, tensor_owner=owner, storage_count=1)
    return builder.ends()


def looked(recording):
    report = asked(recording, only=["unhealthy-training"])
    return report.findings, report.ruled_out, report.skipped


def test_nan_weights_are_named_with_the_step_before(tmp_path):
    recording = trained(tmp_path, HEALTHY, HEALTHY, {"ok": 8, "nan-parameter": ["0.weight", "1.weight"]}).open()
    (finding,), _, _ = looked(recording)
    assert finding.severity == "critical"
    assert says(finding.title, "NaN", "0.weight, 1.weight")
    assert says(finding.evidence[0].text, "step 300", "not yet at step 200")
    assert "step 200 or before" in finding.remedy[0]
    assert finding.subject.holder == "main() model"


def test_many_names_become_a_number(tmp_path):
    names = [f"{i}.weight" for i in range(20)]
    (finding,), _, _ = looked(trained(tmp_path, HEALTHY, {"nan-parameter": names}).open())
    assert finding.title.endswith("4.weight and 15 more")


@pytest.mark.parametrize("state, word", [("nan", "NaN"), ("inf", "Inf")])
def test_broken_gradients_that_last_are_found(tmp_path, state, word):
    broken = {"ok": 9, state: ["0.weight"]}
    (finding,), _, _ = looked(trained(tmp_path, HEALTHY, broken, broken).open())
    assert finding.severity == "critical"
    assert word in finding.title


def test_one_step_with_inf_is_how_a_loss_scaler_works(tmp_path):
    findings, (ruled_out,), _ = looked(trained(tmp_path, {"ok": 9, "inf": ["0.weight"]}, HEALTHY, HEALTHY).open())
    assert not findings
    assert ruled_out.figures["takes_with_nan"] == 1


def test_parameters_that_vanish_are_named(tmp_path):
    before = {"ok": 8, "none-parameter": ["0.bias", "1.bias"]}
    after = {"ok": 6, "none-parameter": ["0.bias", "1.bias", "2.weight", "3.weight"]}
    (finding,), _, _ = looked(trained(tmp_path, before, before, after).open())
    assert finding.severity == "warning"
    assert says(finding.title, "2 parameters", "None", "2.weight, 3.weight")


def test_layers_without_bias_and_another_model_of_that_name_are_innocent(tmp_path):
    without_bias = {"ok": 8, "none-parameter": ["0.bias"]}
    larger = {"ok": 20, "none-parameter": ["0.bias", "1.bias", "2.bias"]}
    findings, (ruled_out,), _ = looked(trained(tmp_path, without_bias, larger).open())
    assert not findings
    assert ruled_out.figures["with_gradient"] == 20


NO_GRADIENT = {"none": ["0.weight", "0.bias"], "frozen": 4, "ok": 0}


def test_steps_without_any_gradient_are_found(tmp_path):
    (finding,), _, _ = looked(trained(tmp_path, NO_GRADIENT, NO_GRADIENT, weights=["AAAA", "AAAA"]).open())
    assert finding.severity == "warning"
    assert "no parameter has a gradient" in finding.title


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "takes, rest",
    [
        ((NO_GRADIENT, NO_GRADIENT), {"weights": ["AAAA", "BBBB"]}),  # cleared within the step: the weights move
        ((NO_GRADIENT, NO_GRADIENT), {"weights": ["AAAA"]}),  # unclear whether they move
        ((NO_GRADIENT, NO_GRADIENT), {"weights": ["AAAA"] * 2, "tensors": ["master-weight"]}),  # an image is optimized
        (({"ok": 5, "none": ["head.weight"]},) * 3, {"weights": ["AAAA", "BBBB"]}),  # a head that is not used
        ((NO_GRADIENT, HEALTHY), {"weights": ["AAAA", "AAAA"]}),  # the first step
        (({"frozen": 10, "ok": 2},) * 3, {}),  # an adapter
    ],
    ids=["cleared", "unknown", "latent", "unused-head", "first-step", "adapter"],
)
def test_missing_gradients_may_be_well(tmp_path, takes, rest):
    findings, (ruled_out,), _ = looked(trained(tmp_path, *takes, **rest).open())
    assert not findings
    assert ruled_out.figures["takes"] == len(takes)


def test_an_extension_that_was_imported_too_late_is_a_note(tmp_path):
    builder = trained(tmp_path, HEALTHY).note(PID, 1.0, "import-order", "unsloth was imported after transformers")
    (finding,), _, _ = looked(builder.open())
    assert (finding.severity, finding.remedy) == ("note", ["import unsloth first"])


def test_a_job_that_does_not_train_is_skipped(tmp_path):
    _, _, (skipped,) = looked(trainer(tmp_path, leak=0).take(PID, 1, 2.0).ends().open())
    assert "optimizer step" in skipped.reason
