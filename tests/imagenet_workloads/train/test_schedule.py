"""The learning rate as a function of the update."""

import pickle

import mxnet as mx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.train.options.kinds import PolynomialDecay, StepDecay
from imagenet_workloads.train.schedule import ByUpdate, Schedule, scaled


@pytest.mark.parametrize(
    ("how", "batch", "expected"),
    [("none", 8192, 0.1), ("linear", 8192, 3.2), ("sqrt", 1024, 0.2), ("linear", 128, 0.05)],
)
def test_scaling(how: str, batch: int, expected: float) -> None:
    assert scaled(0.1, how, batch, 256) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("strategy", "rates"),
    [
        ("linear", [0.25, 0.5, 0.75, 1.0, 1.0]),
        ("power2", [0.0625, 0.25, 0.5625, 1.0, 1.0]),
        ("sqrt", [0.5, 0.5**0.5, 0.75**0.5, 1.0, 1.0]),
        ("lars", [1.0, 1.0, 1.0, 1.0, 1.0]),
    ],
)
def test_warm_up_rises_to_the_peak(strategy: str, rates: list[float]) -> None:
    schedule = Schedule(1.0, 2, 10, warmup_epochs=2, warmup_strategy=strategy)
    assert [schedule(update) for update in range(5)] == pytest.approx(rates)


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


def test_no_decay_is_a_constant() -> None:
    schedule = Schedule(0.4, 5, 4)
    assert {schedule(update) for update in range(100)} == {0.4}


def test_a_fraction_of_an_epoch_warms_up() -> None:
    schedule = Schedule(1.0, 10, 4, warmup_epochs=0.5)
    assert [schedule(update) for update in (0, 4, 5)] == pytest.approx([0.2, 1.0, 1.0])


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
