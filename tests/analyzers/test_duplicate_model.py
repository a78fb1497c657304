"""Copies of weights that could go are found; copies with a purpose are told by what they do, and never accused."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from leakscope import analyze
from leakscope.agent.torch.weights import fingerprint
from leakscope.analyzers import Diagnosis

from ..late import torch
from .asking import asked
from .leaks import PID, trainer

pytestmark = pytest.mark.torch

PROGRAM = """\
def main():
    model = Net()
    state = torch.load("net.pt")
    model.load_state_dict(state)
    half = None
    half = copy.deepcopy(model).to(torch.bfloat16)
"""


def encoder(seed: int = 1, layers: int = 2) -> Any:
    """4.2 MB a layer, all layers alike as they come fresh from TransformerEncoder, and a head."""
    torch.manual_seed(seed)
    layer = torch.nn.TransformerEncoderLayer(256, 4, 2048, batch_first=True)
    model = torch.nn.Sequential(torch.nn.TransformerEncoder(layer, layers, enable_nested_tensor=False))
    model.add_module("head", torch.nn.Linear(256, 64))
    return model


def clone(state: dict[str, Any]) -> dict[str, Any]:
    return {name: tensor.clone() for name, tensor in state.items()}


def train(model: Any, lr: float = 1e-3, steps: int = 3) -> None:
    """What training does to weights, as far as a report can see it: every trained one moves."""
    with torch.no_grad():
        for _ in range(steps):
            for parameter in model.parameters():
                if parameter.requires_grad:
                    parameter += lr * torch.randn_like(parameter)


FILE = "/home/me/train.py"


class Job:
    """A recorded job; each ``look`` is an inventory of the models, dicts and optimizers' tensors given by name."""

    def __init__(self, folder: Any, *, trains: bool = True, program: str = PROGRAM) -> None:
        self.builder = trainer(folder, leak=0).source(PID, FILE, program)
        self.takes = 0
        self.trains = trains

    def look(self, reason: str = "schedule", runs: str = "", **held: Any) -> Job:
        """``runs``: the one that is in use just then, which functions that are called have as well."""
        self.takes += 1
        at_s = 4.0 * self.takes
        step = 20 * self.takes - 19 if self.trains else None
        paths = [
            {"path": f"main() {name}", "variable": name, "owner": "main", "owner_file": FILE, "runs": name == runs}
            for name in held
        ]
        self.builder.take(
            PID,
            self.takes,
            at_s,
            step=step,
            reason=reason,
            seen_lines=f"{FILE}:6 main",
            holders=[{**p, "edge_kind": "local"} for p in paths],
        )
        for name, value in held.items():
            for row in rows(value):
                node = self.builder.node(PID, f"main() {name}") if runs else None
                self.builder.row("weights", at_s, PID, take=self.takes, weight_set=f"main() {name}", node=node, **row)
        return self

    def report(self) -> Any:
        return analyze(self.builder.open(), only=["duplicate-model"])

    def told(self) -> Diagnosis:
        return asked(self.builder.open(), only=["duplicate-model"])


def rows(value: Any) -> list[dict[str, Any]]:
    is_model = isinstance(value, torch.nn.Module)
    if is_model:
        parameters = [(name, "parameter", tensor) for name, tensor in value.named_parameters()]
        tensors = parameters + [(name, "buffer", tensor) for name, tensor in value.named_buffers()]
    elif isinstance(value, list):  # all that the optimizer knows alone
        tensors = [(f"params[{i}]", "master-weight", tensor) for i, tensor in enumerate(value)]
    else:
        tensors = [("[*]", "user-held", tensor) for tensor in value.values()]
    found = []
    for name, owner, tensor in tensors:
        data = fingerprint(tensor)
        if data is not None:
            found.append(
                {
                    "tensor_name": name,
                    "tensor_owner": owner,
                    "device": str(tensor.device),
                    "dtype": str(tensor.dtype).removeprefix("torch."),
                    "shape": "x".join(map(str, tensor.shape)),
                    "storage_bytes": tensor.untyped_storage().nbytes(),
                    "storage_key": torch._C._storage_id(tensor),
                    "requires_grad": tensor.requires_grad,
                    "is_training": value.training if is_model else None,
                    "fingerprint": base64.b64encode(data).decode(),
                }
            )
    return found


def weight_bytes(value: Any) -> int:
    return sum(row["storage_bytes"] for row in rows(value))


# ---- what could go


@pytest.mark.filterwarnings("error")
def test_weights_of_a_training_that_ran_away_are_looked_at_without_a_warning(tmp_path):
    model = encoder()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(float("inf"))
    assert Job(tmp_path, trains=False).look(model=model).look(model=model).told().ruled_out


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_copy_in_half_precision_is_found_and_the_line_that_makes_it(tmp_path, dtype):
    model = encoder()
    half = copy.deepcopy(model).to(getattr(torch, dtype))
    job = Job(tmp_path, trains=False)
    (finding,) = job.look(model=model, half=half).look(model=model, half=half).told().findings
    assert finding.wasted
    assert finding.subject.variable == "half"
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 6)
    assert finding.bytes == pytest.approx(weight_bytes(half), rel=0.02)
    assert "float32" in finding.title and dtype in finding.title
    assert finding.remedy and finding.doubts


@pytest.mark.parametrize("layers, severity", [(1, "note"), (4, "warning")])
def test_a_copy_is_a_warning_where_it_is_much_of_what_the_process_holds(tmp_path, layers, severity):
    """Of 100 MiB, 5 are not much, and 20 are."""
    held = {"one": encoder(layers=layers), "two": encoder(layers=layers)}
    (finding,) = Job(tmp_path, trains=False).look(**held).look(**held).told().findings
    assert finding.severity == severity


def test_a_second_model_of_the_same_checkpoint_is_found(tmp_path):
    one, two = encoder(), encoder()
    report = Job(tmp_path, trains=False).look(one=one, two=two).look(one=one, two=two).report()
    assert [f.kind for f in report.findings] == ["duplicate-model"]
    assert report.verdict.wasted_bytes == pytest.approx(weight_bytes(one), rel=0.02)
    assert report.verdict.leaking is False


def test_a_backbone_held_twice_under_different_heads_is_found(tmp_path):
    one, two = encoder(), encoder()
    torch.nn.init.normal_(two.head.weight)
    (finding,) = Job(tmp_path, trains=False).look(one=one, two=two).look(one=one, two=two).told().findings
    assert finding.bytes == pytest.approx(weight_bytes(one) - one.head.weight.nbytes, rel=0.02)


def test_a_checkpoint_that_is_held_after_it_was_loaded_is_found(tmp_path):
    model = encoder()
    state = clone(model.state_dict())
    job = Job(tmp_path)
    train(model, steps=1)  # the first look comes after the first step
    job.look(model=model, state=state)
    for _ in range(2):
        train(model, steps=20)
        job.look(model=model, state=state)
    (finding,) = job.told().findings
    assert finding.subject.variable == "state"
    assert finding.subject.line == 3
    assert finding.bytes == pytest.approx(weight_bytes(state), rel=0.02)
    assert "started from" in finding.title


@pytest.mark.parametrize(("then", "is_told"), [("pass", True), ("if worse(): model.load_state_dict(state)", False)])
def test_weights_that_a_later_line_goes_back_to_are_a_reference(tmp_path, then, is_told):
    model = encoder()
    state = clone(model.state_dict())
    job = Job(tmp_path, program=f"{PROGRAM}    train()\n    {then}\n")
    for _ in range(3):
        job.look(model=model, state=state, runs="model")
        train(model, steps=20)
    assert [finding.subject.variable for finding in job.told().findings] == ["state"] * is_told


@pytest.mark.further
def test_a_checkpoint_that_is_kept_flat_is_found(tmp_path):
    """Some readers of files keep the tensor as it was read, without its shape, under the views they give."""
    model = encoder()
    state = {name: tensor.clone().flatten() for name, tensor in model.state_dict().items()}
    job = Job(tmp_path).look(model=model, state=state)
    train(model, steps=50)
    (finding,) = job.look(model=model, state=state).told().findings
    assert finding.subject.variable == "state"


def test_a_checkpoint_held_beside_a_frozen_base_is_found(tmp_path):
    model = encoder()
    state = clone(model.state_dict())
    model.requires_grad_(False)
    model.add_module("adapter", torch.nn.Linear(256, 256))
    job = Job(tmp_path).look(model=model, state=state)
    train(model, steps=50)
    (finding,) = job.look(model=model, state=state).told().findings
    assert finding.subject.variable == "state"


@pytest.mark.further
def test_a_checkpoint_with_the_state_of_its_optimizer_is_found(tmp_path):
    model = encoder()
    state = clone(model.state_dict())
    state.update({f"{name}.exp_avg": torch.randn_like(tensor) for name, tensor in model.state_dict().items()})
    state.update({f"{name}.exp_avg_sq": torch.rand_like(tensor) for name, tensor in model.state_dict().items()})
    job = Job(tmp_path).look(model=model, state=state)
    train(model, steps=50)
    (finding,) = job.look(model=model, state=state).told().findings
    assert finding.bytes == pytest.approx(weight_bytes(model), rel=0.02)


def test_a_checkpoint_that_was_there_before_the_model_is_found_with_one_look_at_both(tmp_path):
    """A busy machine: at the first look the model was still being made, and there was time for one more."""
    model = encoder().requires_grad_(False)
    state = clone(model.state_dict())
    model.add_module("adapter", torch.nn.Linear(256, 256))
    (finding,) = Job(tmp_path).look(state=state).look(model=model, state=state).told().findings
    assert finding.subject.variable == "state"
    assert "neither had changed 4.0 s later" in finding.evidence[0].text


def test_a_checkpoint_beside_the_model_that_serves_is_worth_a_note_at_first_sight(tmp_path):
    """Nothing trains here, so that nothing will ever tell the two apart: one look is enough."""
    model = encoder().eval()
    state = clone(model.state_dict())
    (finding,) = Job(tmp_path, trains=False).look(model=model, snapshot=state).told().findings
    assert (finding.severity, finding.subject.variable) == ("note", "snapshot")
    assert "nothing trains" in finding.evidence[0].text


def test_two_models_of_one_content_that_serve_are_worth_a_note_at_first_sight(tmp_path):
    """A slow machine had time for one look at the weights."""
    model = encoder().eval()
    (finding,) = Job(tmp_path, trains=False).look(model=model, half=copy.deepcopy(model)).told().findings
    assert (finding.severity, finding.subject.variable) == ("note", "half")
    assert any("both may be in use" in doubt for doubt in finding.doubts)


USES_BOTH = """\
def main():
    exact = load()
    quick = other(exact)
    x = start()
    while True:
        x = quick(x)
        x = exact(x)
"""


def test_two_forms_of_a_model_that_are_both_called_are_both_needed(tmp_path):
    """A fast one proposes, the exact one decides."""
    exact = encoder().eval()
    quick = copy.deepcopy(exact).to(torch.bfloat16)
    job = Job(tmp_path, trains=False, program=USES_BOTH)
    for _ in range(3):
        job.look(runs="exact", exact=exact, quick=quick)
    told = job.told()
    assert not told.findings
    assert "lines that go on running read both" in told.ruled_out[0].reason


CASTS = """\
import copy
def main():
    exact = load()
    quick = copy.deepcopy(exact).half()
    while True:
        x = quick(x)
"""


def test_a_model_that_was_cast_and_is_read_no_more_is_given_up_behind_the_cast(tmp_path):
    exact = encoder().eval()
    job = Job(tmp_path, trains=False, program=CASTS)
    for _ in range(3):
        job.look(runs="quick", exact=exact, quick=copy.deepcopy(exact).half())
    (finding,) = job.report().findings
    assert finding.subject.variable == "exact"
    assert finding.edit is not None and "half()\n+    del exact\n" in finding.edit.diff


def test_two_models_alike_that_are_both_called_could_be_one(tmp_path):
    exact = encoder().eval()
    job = Job(tmp_path, trains=False, program=USES_BOTH)
    for _ in range(3):
        job.look(runs="exact", exact=exact, quick=copy.deepcopy(exact))
    assert len(job.told().findings) == 1


@pytest.mark.parametrize("in_use, could_go", (("full", "fast"), ("fast", "full")))
def test_of_two_models_the_one_could_go_that_was_not_in_use_when_the_other_was(tmp_path, in_use, could_go):
    """Lines of source do not tell: a registry gives either."""
    full = encoder().eval()
    fast = copy.deepcopy(full).to(torch.bfloat16)
    (finding,) = Job(tmp_path, trains=False).look(runs=in_use, full=full, fast=fast).told().findings
    assert finding.subject.variable == could_go
    assert finding.bytes == pytest.approx(weight_bytes({"full": full, "fast": fast}[could_go]), rel=0.01)


def test_a_checkpoint_beside_an_optimizer_that_has_not_stepped_may_be_its_reference(tmp_path):
    model = encoder()
    job = Job(tmp_path, trains=False).look(model=model, best=clone(model.state_dict()))
    job.builder.holds(PID, 1, 4.0, [{"path": "main() adam", "type_name": "torch.optim.adam.Adam"}])
    innocent(job.told(), "training was not seen")


def test_a_damaged_row_costs_no_other_its_look(tmp_path):
    one, two = encoder(), encoder()
    job = Job(tmp_path, trains=False).look(one=one, two=two).look(one=one, two=two)
    for damage in ({"fingerprint": "é"}, {"fingerprint": "AAA"}, {"fingerprint": "", "shape": "²x" + 400 * "9"}):
        job.builder.row("weights", 4.0, PID, **{"take": 1, "weight_set": "main() one", **damage})
    assert [f.kind for f in job.told().findings] == ["duplicate-model"]


def test_three_copies_are_two_findings(tmp_path):
    held = {"a": encoder(), "b": encoder(), "c": clone(encoder().state_dict())}
    findings = Job(tmp_path, trains=False).look(**held).look(**held).told().findings
    assert sorted(f.subject.variable for f in findings) == ["b", "c"]


def test_copies_that_many_hold_alike_are_one_finding(tmp_path):
    """Each thread has a client of its own, each client a model: one path leads to all of them."""
    held = {"net": encoder(), "client.net": encoder(), "client.net #2": encoder(), "client.net #3": encoder()}
    findings = Job(tmp_path, trains=False).look(**held).look(**held).told().findings
    assert len(findings) <= 2 and sum(f.bytes for f in findings) > 3 * 8e6
    assert "The same weights are held 3 times: client.net" in {f.title for f in findings}


def test_a_model_is_known_again_by_another_name(tmp_path):
    """As the first look came the model was still being made: self in __init__, then trainer.model."""
    model = encoder()
    state = clone(model.state_dict())
    job = Job(tmp_path).look(made=model)
    train(model, steps=50)
    (finding,) = job.look(model=model, state=state).told().findings
    assert finding.subject.variable == "state"


# ---- what has a purpose


def innocent(report: Any, words: str) -> None:
    assert not report.findings
    said = [entry.reason for entry in (*report.ruled_out, *report.skipped)]
    assert any(words in reason for reason in said), said


def test_other_weights_of_the_same_architecture(tmp_path):
    job = Job(tmp_path, trains=False).look(one=encoder(1), two=encoder(2)).look(one=encoder(1), two=encoder(2))
    innocent(job.told(), "no two sets of weights are alike")


def test_a_fresh_model_with_equal_layers_and_the_layer_it_repeats(tmp_path):
    model = encoder(layers=4)
    layer = copy.deepcopy(model[0].layers[0])
    job = Job(tmp_path).look(model=model, layer=layer)
    train(model)
    innocent(job.look(model=model, layer=layer).told(), "template")


def test_a_reference_model(tmp_path):
    policy = encoder()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    job = Job(tmp_path).look(policy=policy, reference=reference)
    train(policy, steps=20)
    innocent(job.look(policy=policy, reference=reference).told(), "reference")


def test_a_reference_model_while_training_has_not_begun(tmp_path):
    policy = encoder()
    reference = copy.deepcopy(policy).eval().requires_grad_(False)
    job = Job(tmp_path, trains=False).look(policy=policy, reference=reference).look(policy=policy, reference=reference)
    innocent(job.told(), "may be the other's reference")


def test_two_models_with_an_optimizer_that_has_not_stepped(tmp_path):
    model = encoder()
    held = {"model": model, "target": copy.deepcopy(model)}
    job = Job(tmp_path, trains=False).look(**held).look(**held)
    adam = {"path": "main() adam", "type_name": "torch.optim.adam.Adam"}
    job.builder.holds(PID, 2, 8.0, [adam])
    innocent(job.told(), "training was not seen")


def test_one_look_cannot_tell(tmp_path):
    model = encoder()
    report = Job(tmp_path).look(model=model, target=copy.deepcopy(model)).report()
    assert not report.findings and not report.ruled_out
    assert "training was not seen" in report.skipped[0].reason


def test_a_snapshot_that_was_just_made(tmp_path):
    model = encoder()
    job = Job(tmp_path).look(model=model)
    train(model, steps=50)
    innocent(job.look(model=model, best=clone(model.state_dict())).told(), "training was not seen")


@pytest.mark.further
def test_a_snapshot_from_before_its_layers_were_unfrozen(tmp_path):
    """It is equal to the weights at the start, and of a later epoch all the same."""
    model = encoder().requires_grad_(False)
    model.head.requires_grad_(True)
    job = Job(tmp_path).look(model=model)
    train(model)
    snapshots = clone(model.state_dict())
    model.requires_grad_(True)
    train(model, steps=50)
    innocent(job.look(model=model, snapshots=snapshots).told(), "no two sets of weights are alike")


@pytest.mark.parametrize("start", ["at the first step", "later"])
def test_an_average(tmp_path, start):
    model = encoder()
    average = copy.deepcopy(model)
    job = Job(tmp_path)
    if start == "at the first step":
        job.look(model=model, average=average)
    for _ in range(2):
        train(model, steps=5)
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters()):
                slow.lerp_(fast, 0.1)
        job.look(model=model, average=average)
    innocent(job.told(), "follows")


@pytest.mark.further
def test_an_average_kept_as_a_dict(tmp_path):
    model = encoder()
    shadow = clone(model.state_dict())
    job = Job(tmp_path)
    for _ in range(3):
        job.look(model=model, shadow=shadow)
        train(model, steps=5)
        for name, fast in model.state_dict().items():
            shadow[name].lerp_(fast, 0.1)
    innocent(job.told(), "follows")


@pytest.mark.further
def test_a_target_network_that_is_replaced_at_times(tmp_path):
    model = encoder()
    target = copy.deepcopy(model)
    job = Job(tmp_path)
    for i in range(4):
        job.look(model=model, target=target)
        train(model, steps=5)
        if i == 1:
            target.load_state_dict(model.state_dict())
    innocent(job.told(), "follows")


def test_a_copy_that_is_kept_in_step(tmp_path):
    model = encoder()
    actor = copy.deepcopy(model).to(torch.bfloat16)
    job = Job(tmp_path)
    for _ in range(2):
        job.look(model=model, actor=actor)
        train(model)
        actor.load_state_dict(model.state_dict())
    innocent(job.look(model=model, actor=actor).told(), "in step")


def test_master_weights(tmp_path):
    model = encoder().to(torch.bfloat16)
    masters = [p.detach().float() for p in model.parameters()]
    job = Job(tmp_path).look(model=model, optimizer=masters).look(model=model, optimizer=masters)
    innocent(job.told(), "master weights")


def test_the_best_state_so_far(tmp_path):
    model = encoder()
    job = Job(tmp_path).look(model=model)
    train(model, steps=5)
    best = clone(model.state_dict())
    for _ in range(2):
        train(model, steps=5)
        job.look(model=model, best=best)
    innocent(job.told(), "saved state")


def test_a_merged_model_beside_its_base(tmp_path):
    base = encoder(layers=4)
    merged = copy.deepcopy(base)
    with torch.no_grad():
        for layer in merged[0].layers:
            layer.self_attn.in_proj_weight.add_(0.01 * torch.randn(768, 256))
    job = Job(tmp_path, trains=False).look(base=base, merged=merged).look(base=base, merged=merged)
    innocent(job.told(), "with changes")


def test_what_was_dropped_again(tmp_path):
    model = encoder()
    state = clone(model.state_dict())
    job = Job(tmp_path).look(model=model, state=state)
    train(model)
    innocent(job.look(model=model).told(), "no two sets")


def test_a_model_under_another_name_at_exit_is_no_second_one(tmp_path):
    model = encoder()
    job = Job(tmp_path, trains=False).look(model=model).look(model=model).look(reason="exit", net=model)
    innocent(job.told(), "no two sets")


def test_a_small_copy(tmp_path):
    one, two = (torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(4))) for _ in range(2))
    two.load_state_dict(one.state_dict())
    innocent(Job(tmp_path, trains=False).look(one=one, two=two).look(one=one, two=two).told(), "same weights")
