"""The learning rate as a function of the update."""

import pickle

import mxnet as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.program.kinds import PolynomialDecay, StepDecay
from imagenet_workloads.frameworks.mxnet.optimizers import ByUpdate
from imagenet_workloads.train.schedule import Schedule


def test_steps_are_those_of_mxnets_scheduler() -> None:
    ours = Schedule(0.4, 5, 10, decay=StepDecay((2, 4)), factor=0.1)
    theirs = mx.lr_scheduler.MultiFactorScheduler(step=[10, 20], factor=0.1, base_lr=0.4)
    # Theirs falls one update late, since it counts from 1 and compares with "greater".
    assert [ours(update) for update in range(30)] == pytest.approx(
        [theirs(update + 1) for update in range(30)]
    )


def test_polynomial_decay_is_mxnets() -> None:
    ours = Schedule(0.4, 5, 4, decay=PolynomialDecay(2))
    theirs = mx.lr_scheduler.PolyScheduler(20, base_lr=0.4, pwr=2)
    assert [ours(update) for update in range(25)] == pytest.approx(
        [theirs(update) for update in range(25)]
    )


@pytest.mark.parametrize(
    ("shape", "theirs"),
    [
        ("cosine", mx.lr_scheduler.CosineScheduler(20, base_lr=0.4, warmup_steps=5)),
        ("polynomial", mx.lr_scheduler.PolyScheduler(20, base_lr=0.4, pwr=2, warmup_steps=5)),
    ],
)
def test_after_the_warm_up_shapes_are_mxnets(
    shape: str, theirs: mx.lr_scheduler.LRScheduler
) -> None:
    ours = Schedule(0.4, 5, 4, warmup_epochs=1, shape=shape)
    assert [ours(update) for update in range(5, 21)] == pytest.approx(
        [theirs(update) for update in range(5, 21)], abs=1e-9
    )


@given(
    workers=st.integers(1, 8),
    updates=st.integers(0, 200),
    epochs=st.lists(st.integers(1, 20), unique=True, max_size=4),
)
def test_an_asynchronous_server_counts_every_workers_push(
    workers: int, updates: int, epochs: list[int]
) -> None:
    schedule = Schedule(1.0, 10, 20, 2, "linear", StepDecay(tuple(sorted(epochs))))
    rate = ByUpdate(schedule, workers)
    for push in range(workers):
        # MXNet counts the push before it asks.
        assert rate(updates * workers + push + 1) == schedule(updates)


def test_servers_can_unpickle_it() -> None:
    rate = ByUpdate(Schedule(0.4, 5, 4, decay=StepDecay((2,))), 2)
    assert pickle.loads(pickle.dumps(rate, 0))(5) == rate(5)
