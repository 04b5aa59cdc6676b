"""Stragglers: who is named, when, and when no longer."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.reconcile import windows
from imagenet_operator.reconcile.policies import stragglers
from imagenet_operator.reconcile.scrape import BeforeExchange
from imagenet_operator.reconcile.windows import WINDOWS, Comparison, Process, compared
from imagenet_spec.resource.status import MemberStatus, Straggler, TrainingStatus
from support.attempt_members import NOW, recorded
from support.sentences import assert_says

SAMPLE = timedelta(seconds=15)
EXCHANGES = 30
"""Of each process between two samples."""


class Training:
    """Processes that take the given seconds before each exchange, sampled every 15 seconds."""

    def __init__(self, *processes: Process) -> None:
        self.totals = dict.fromkeys(processes, BeforeExchange(0.0, 0.0))
        self.now = NOW
        self.comparison: Comparison | None = None
        self.status = TrainingStatus()
        self.sample()

    def sample(self) -> None:
        workers: dict[str, dict[str, BeforeExchange]] = {}
        for (pod, slot), total in self.totals.items():
            workers.setdefault(pod, {})[slot] = total
        self.comparison = compared(self.comparison, workers, self.now)
        if self.comparison is not None and self.comparison.factors:
            found = stragglers.slowest(self.status, self.comparison)
            self.status = self.status.model_copy(update={"stragglers": found or None})

    def train(self, seconds: Sequence[float], samples: int = 1, exchanges: int = EXCHANGES) -> None:
        for _ in range(samples):
            self.now += SAMPLE
            for process, each in zip(self.totals, seconds, strict=True):
                total = self.totals[process]
                self.totals[process] = BeforeExchange(
                    total.seconds + each * exchanges, total.exchanges + exchanges
                )
            self.sample()

    @property
    def named(self) -> dict[str, float]:
        """Pod → factor of those that are named; slots follow the pod's name."""
        return {
            item.name if item.slot is None else f"{item.name}/{item.slot}": item.factor
            for item in self.status.stragglers or ()
        }


def workers(number: int) -> Training:
    return Training(*[(f"worker-{index}", "") for index in range(number)])


@pytest.mark.parametrize(
    ("seconds", "named"),
    [
        pytest.param([1, 1, 2], {"worker-2": 2.0}, id="one of three"),
        pytest.param([1, 1.5], {"worker-1": 1.5}, id="one of two is compared with the other"),
        pytest.param([1, 1.49], {}, id="a little slower"),
        pytest.param([2, 2, 2, 2], {}, id="all alike"),
        pytest.param([0, 0, 1], {}, id="nothing to compare with"),
        pytest.param([1, 1, 2, 3], {"worker-2": 2.0, "worker-3": 3.0}, id="half of them"),
        pytest.param([1, 2, 2], {}, id="most of them are the measure"),
        pytest.param([0.1, 1, 1, 1.4], {}, id="a fast one does not make others slow"),
    ],
)
def test_who_is_slow_for_three_windows_is_named(
    seconds: list[float], named: dict[str, float]
) -> None:
    training = workers(len(seconds))
    training.train(seconds, samples=WINDOWS - 1)
    assert training.named == {}
    training.train(seconds)
    assert training.named == named


def test_one_long_pause_is_no_straggler() -> None:
    training = workers(3)
    for _ in range(20):
        training.train([1, 1, 100])
        training.train([1, 1, 1])
        training.train([1, 1, 2], samples=2)
        training.train([1, 1, 1])
    assert training.named == {}


def test_who_was_named_stays_so_until_it_is_clearly_fast_again() -> None:
    training = workers(3)
    training.train([1, 1, 2], samples=3)
    # Between the two factors; and a little below the lower one, but not for long enough.
    training.train([1, 1, 1.3], samples=10)
    for _ in range(5):
        training.train([1, 1, 1.2], samples=2)
        training.train([1, 1, 1.3])
    assert training.named == {"worker-2": 2.0}
    training.train([1, 1, 1.2], samples=3)
    assert training.named == {}
    training.train([1, 1, 1.3], samples=10)
    assert training.named == {}


def test_the_factor_is_that_of_the_naming() -> None:
    """A factor that changes with each sample would be a write of the status each time."""
    training = workers(3)
    training.train([1, 1, 2], samples=3)
    training.train([1, 1, 4], samples=3)
    assert training.named == {"worker-2": 2.0}


def test_a_window_has_enough_exchanges_and_lasts_long_enough() -> None:
    slow_steps = workers(3)
    slow_steps.train([10, 10, 20], samples=2 * windows.EXCHANGES - 1, exchanges=1)
    assert slow_steps.named == {}
    slow_steps.train([10, 10, 20], samples=windows.EXCHANGES + 1, exchanges=1)
    assert slow_steps.named == {"worker-2": 2.0}

    often = workers(3)
    for _ in range(29):
        often.now += timedelta(seconds=1) - SAMPLE
        often.train([1, 1, 2], exchanges=1000)
    assert often.named == {}
    often.train([1, 1, 2])
    assert often.named == {"worker-2": 2.0}


def test_processes_of_a_pod_are_compared_too() -> None:
    training = Training(*[("worker-0", str(slot)) for slot in range(8)])
    training.train([1, 1, 1, 1, 1, 1.8, 1, 1], samples=3)
    assert training.named == {"worker-0/5": 1.8}


@pytest.mark.parametrize("processes", [[], [("worker-0", "")]])
def test_one_process_is_compared_with_none(processes: list[Process]) -> None:
    assert Training(*processes).comparison is None


def test_other_processes_or_lower_totals_begin_anew() -> None:
    training = workers(3)
    training.train([1, 1, 2], samples=2)
    training.totals["worker-3", ""] = BeforeExchange(0, 0)
    training.sample()
    training.train([1, 1, 2, 1], samples=2)
    assert training.named == {}
    training.totals["worker-0", ""] = BeforeExchange(0, 0)
    training.sample()
    training.train([1, 1, 2, 1], samples=2)
    assert training.named == {}
    training.train([1, 1, 2, 1])
    assert training.named == {"worker-2": 2.0}


seconds_of_steps = st.lists(st.floats(0.001, 100), min_size=2, max_size=9)


@given(st.lists(seconds_of_steps.filter(lambda found: len(found) >= 5), min_size=1, max_size=12))
def test_only_who_was_slow_for_three_windows_is_named(rounds: list[list[float]]) -> None:
    training = workers(5)
    was_slow = dict.fromkeys(training.totals, 0)
    for found in rounds:
        seconds = found[:5]
        training.train(seconds)
        middle = sorted(seconds)[2]
        for process, each in zip(training.totals, seconds, strict=True):
            was_slow[process] += each >= stragglers.CLEARED * middle
    assert all(was_slow[worker, ""] >= WINDOWS for worker in training.named)


@given(st.lists(st.floats(1.0, 1.2), min_size=2, max_size=9), st.data(), st.floats(2.0, 100))
def test_the_one_that_is_twice_as_slow_is_named_and_no_other(
    seconds: list[float], data: st.DataObject, times: float
) -> None:
    training = workers(len(seconds))
    training.train(seconds, samples=5)
    assert training.named == {}
    slow = data.draw(st.integers(0, len(seconds) - 1))
    seconds[slow] *= times
    training.train(seconds, samples=4)
    assert training.named.keys() == {f"worker-{slow}"}


@given(seconds_of_steps, st.floats(0.001, 1000))
def test_the_unit_of_time_makes_no_difference(seconds: list[float], unit: float) -> None:
    one, other = workers(len(seconds)), workers(len(seconds))
    one.train(seconds, samples=4)
    other.train([each * unit for each in seconds], samples=4)
    middle = sorted(seconds)[(len(seconds) - 1) // 2]
    if all(abs(each / middle - stragglers.FACTOR) > 0.001 for each in seconds):
        assert one.named.keys() == other.named.keys()


def training_status(*found: Straggler) -> TrainingStatus:
    members = [
        MemberStatus(name=f"digits-r0-worker-{index}", role="worker", node=f"n{index}")
        for index in range(8)
    ]
    return TrainingStatus(members=(recorded("server-0"), *members), stragglers=found or None)


def straggler(index: int, factor: float = 1.8, slot: int | None = None) -> Straggler:
    return Straggler(name=f"digits-r0-worker-{index}", factor=factor, slot=slot)


@pytest.mark.parametrize(
    ("found", "facts"),
    [
        (
            [straggler(3)],
            ["worker 3 (pod digits-r0-worker-3 on node n3)", "1.8 times", "of 8 workers"],
        ),
        (
            [straggler(3, 2.0, slot=5)],
            ["slot 5 of worker 3 (pod digits-r0-worker-3 on node n3)", "2 times", "of all"],
        ),
        (
            [straggler(99), straggler(1, 1.5)],
            [
                "worker 99 (pod digits-r0-worker-99)",
                "1.8 times",
                "; worker 1 (pod digits-r0-worker-1 on node n1)",
                "1.5 times",
            ],
        ),
    ],
)
def test_the_message_names_pod_node_and_factor(found: list[Straggler], facts: list[str]) -> None:
    assert_says(stragglers.message(training_status(*found)), *facts)


def test_the_words_are_bounded() -> None:
    words = stragglers.message(training_status(*map(straggler, range(7))))
    assert words.endswith("; 4 more")
    assert words.count("(pod ") == 3


def test_the_status_has_the_slowest() -> None:
    training = workers(100)
    seconds = [1.0] * 60 + [2 + index / 10 for index in range(40)]
    training.train(seconds, samples=3)
    assert list(training.named)[:2] == ["worker-99", "worker-98"]
    assert training.named["worker-99"] == 5.9
    assert len(training.named) == stragglers.MOST


def test_only_a_further_straggler_is_new() -> None:
    one, other, both = (
        training_status(*found)
        for found in ([straggler(1)], [straggler(1, 2.5)], [straggler(1), straggler(2)])
    )
    none = training_status()
    pairs = [(none, one), (one, both), (one, other), (both, one), (one, none)]
    assert [stragglers.new(*pair) for pair in pairs] == [True, True, False, False, False]


def test_a_comparison_is_visible_when_the_stragglers_may_change() -> None:
    training = workers(3)
    seen = []
    for seconds in [[1, 1, 2]] * 5 + [[1, 1, 1]] * 5:
        before, named = training.comparison, training.named
        training.train(seconds)
        seen.append(stragglers.is_visible(before, training.comparison))
        assert seen[-1] or training.named == named
    # With the third window, when not every window is slow any more, and when none is.
    assert [number for number, is_visible in enumerate(seen, 1) if is_visible] == [3, 6, 8]
