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
