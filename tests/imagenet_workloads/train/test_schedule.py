"""The learning rate as a function of the update."""

import pytest

from imagenet_workloads.train.schedule import Schedule, scaled


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


def test_no_decay_is_a_constant() -> None:
    schedule = Schedule(0.4, 5, 4)
    assert {schedule(update) for update in range(100)} == {0.4}


def test_a_fraction_of_an_epoch_warms_up() -> None:
    schedule = Schedule(1.0, 10, 4, warmup_epochs=0.5)
    assert [schedule(update) for update in (0, 4, 5)] == pytest.approx([0.2, 1.0, 1.0])


# 2 updates an epoch, 1 epoch of warm-up, and 8 updates after it: (1 + cos(pi * k / 8)) / 2.
COSINE = (0.5, 1.0, 1.0, 0.961940, 0.853553, 0.691342, 0.5, 0.308658, 0.146447, 0.038060)
# (1 - k / 8)^2.
POLYNOMIAL = (0.5, 1.0, 1.0, 0.765625, 0.5625, 0.390625, 0.25, 0.140625, 0.0625, 0.015625)


@pytest.mark.parametrize(("shape", "rates"), [("cosine", COSINE), ("polynomial", POLYNOMIAL)])
def test_the_rate_falls_from_the_end_of_the_warm_up_to_zero(
    shape: str, rates: tuple[float, ...]
) -> None:
    schedule = Schedule(1.0, 2, 5, warmup_epochs=1, shape=shape)
    assert [schedule(update) for update in range(10)] == pytest.approx(rates, abs=1e-6)
    assert schedule(10) == schedule(11) == pytest.approx(0)


def test_the_power_of_a_polynomial_can_be_one() -> None:
    schedule = Schedule(0.8, 4, 1, shape="polynomial", power=1)
    assert [schedule(update) for update in range(4)] == pytest.approx([0.8, 0.6, 0.4, 0.2])


def test_a_warm_up_of_all_epochs_leaves_no_time_to_fall() -> None:
    schedule = Schedule(1.0, 2, 1, warmup_epochs=3, shape="cosine")
    assert [schedule(update) for update in range(2)] == pytest.approx([1 / 6, 2 / 6])
