"""bfloat16 and float16: what is computed in them, what stays in float32, and what is resumed."""

from pathlib import Path

import pytest
import torch
from torch import nn

from imagenet_workloads.checkpoint.store import Position
from imagenet_workloads.commands.train import parse
from imagenet_workloads.frameworks.pytorch.checkpoint_files import restore
from imagenet_workloads.frameworks.pytorch.optimizers import Updater
from imagenet_workloads.frameworks.pytorch.precision import Precision
from imagenet_workloads.train.resume import ResumePoint
from imagenet_workloads.train.schedule import Schedule
from support.pytorch_learners import RESNET, differing, learner, trained

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}

FLOAT16 = ("--dtype", "float16")
OPTIONS = parse(["--framework", "PyTorch", *FLOAT16])


@pytest.mark.parametrize("name", TYPES)
def test_operations_have_the_precision_and_weights_float32(name: str) -> None:
    made = learner(RESNET, "--dtype", name)
    seen = []
    made.network.fc1.register_forward_hook(lambda _, __, scores: seen.append(scores.dtype))
    trained(1, made)
    assert seen == [TYPES[name]]
    assert {one.dtype for one in made.network.parameters()} == {torch.float32}
    states = made.updater.states()
    assert {one.dtype for key, one in states.items() if "/" in key} == {torch.float32}


@pytest.mark.parametrize(("name", "within"), [("bfloat16", 5e-3), ("float16", 1e-3)])
def test_weights_move_as_in_float32_but_for_rounding(name: str, within: float) -> None:
    exact, rounded = trained(1, learner()), trained(1, learner(RESNET, "--dtype", name))
    assert differing(rounded, exact) != []
    for one, other in zip(rounded.network.parameters(), exact.network.parameters(), strict=True):
        torch.testing.assert_close(one, other, atol=within, rtol=0)


def one_weight(rate: float) -> tuple[Updater, nn.Linear]:
    """A weight of 1 with plain steps of a rate, in float16."""
    layer = nn.Linear(1, 1, bias=False)
    nn.init.ones_(layer.weight)
    options = parse(["--optimizer", "sgd", "--mom", "0", "--wd", "0"])
    schedule = Schedule(rate, 10, 1)
    return Updater(options.optimizer, layer, schedule, Precision("float16")), layer


def test_a_gradient_below_the_smallest_float16_moves_weights() -> None:
    updater, layer = one_weight(rate=2.0**26)
    with updater.precision.autocast():
        scores = layer(torch.ones(1, 1))
    assert scores.dtype == torch.float16
    updater.backward(scores.float().sum() * 2.0**-26)
    updater.update(0)
    assert layer.weight.item() == 0


def test_an_overflow_leaves_the_weights_and_halves_the_scale() -> None:
    updater, layer = one_weight(rate=1.0)
    scale = updater.states()[":scale"].item()
    updater.backward(layer(torch.full((1, 1), float("inf"))).sum())
    updater.update(0)
    assert layer.weight.item() == 1.0
    assert updater.states()[":scale"].item() == scale / 2
    updater.backward(layer(torch.full((1, 1), 0.5)).sum())
    updater.update(1)
    assert layer.weight.item() == 0.5
    assert updater.states()[":growth_tracker"].item() == 1


def test_a_checkpoint_has_the_scale(tmp_path: Path) -> None:
    whole = learner(RESNET, *FLOAT16)
    # An overflow, so that the scale is not the first one.
    whole.updater.backward(next(whole.network.parameters()).sum() * float("inf"))
    whole.updater.update(0)
    trained(2, whole).snapshot().save(tmp_path)
    again = learner(RESNET, *FLOAT16)
    restore(OPTIONS, again.network, again.updater, ResumePoint(Position(0, 2), tmp_path, True))
    saved, found = whole.updater.states(), again.updater.states()
    first = learner(RESNET, *FLOAT16).updater.states()
    assert found[":scale"] == saved[":scale"] != first[":scale"]
    assert found[":growth_tracker"] == saved[":growth_tracker"] == 2


def test_states_without_a_scale_are_refused() -> None:
    with pytest.raises(ValueError, match="it has no scale of float16"):
        Precision("float16").load_states({})
