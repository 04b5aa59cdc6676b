"""Counting as MXNet counts, and carrying counts through float32."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_workloads.errors import InputError
from imagenet_workloads.train import counts
from imagenet_workloads.train.counts import (
    LIMB_BITS,
    LIMBS,
    Counts,
    OutputCounts,
    count,
    from_limbs,
    to_limbs,
)
from imagenet_workloads.train.framework import Outputs

WHOLE = st.integers(0, (1 << (LIMB_BITS * LIMBS)) - 1)


@given(st.lists(WHOLE, max_size=6))
def test_limbs_hold_whole_numbers(numbers: list[int]) -> None:
    assert from_limbs(to_limbs(numbers)) == numbers


@given(st.lists(st.lists(st.integers(0, 1 << 48), min_size=3, max_size=3), min_size=1))
def test_float32_sums_of_limbs_are_exact(workers: list[list[int]]) -> None:
    total = np.zeros(3 * LIMBS, dtype=np.float32)
    for numbers in workers:
        total += to_limbs(numbers)
    assert from_limbs(total) == [sum(column) for column in zip(*workers, strict=True)]


def test_limbs_of_4096_workers_are_exact() -> None:
    largest = (1 << LIMB_BITS) - 1
    total = np.zeros(LIMBS, dtype=np.float32)
    for _ in range(4096):
        total += to_limbs([largest])
    assert from_limbs(total) == [4096 * largest]


@pytest.mark.parametrize("number", [-1, 1 << (LIMB_BITS * LIMBS)])
def test_limbs_refuse_what_they_cannot_hold(number: int) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        to_limbs([number])


def test_a_loss_that_is_no_number_stays_one_in_sums() -> None:
    good = count(Outputs.of(np.full((2, 4), 0.25, np.float32), np.zeros(2, np.float32)), 0)
    bad = count(Outputs.of(np.full((1, 4), np.nan, np.float32), np.zeros(1, np.float32)), 0)
    assert good.loss == pytest.approx(math.log(4), abs=1e-5)
    assert math.isnan((good + bad).loss)
    assert (good + bad).images == 3
    assert math.isnan(Counts().loss)
    assert Counts().accuracy(0) == 0


def test_fewer_than_five_classes_are_always_within_five() -> None:
    found = count(Outputs.of(np.full((3, 4), 0.25, np.float32), np.array([3, 3, 0], np.float32)), 1)
    assert (found.top1, found.top5, found.top_k) == (1, 3, 1)


@pytest.mark.parametrize("label", ["-1", "4", "1234567", "-0.5", "nan"])
def test_a_label_that_is_no_class_is_named(label: str) -> None:
    outputs = Outputs.of(np.full((1, 4), 0.25, np.float32), np.array([0], np.float32))
    outputs = replace(outputs, labels=np.array([label], np.float32))
    with pytest.raises(InputError, match=f"label {label}, but the network has 4 classes"):
        OutputCounts(0).add(outputs)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.sampled_from([1, 3, 1 << 24]),
    st.integers(0, 1000),
)
def test_batches_count_the_same_together_and_one_by_one(
    sizes: list[int], held: int, seed: int
) -> None:
    random = np.random.default_rng(seed)
    batches = []
    for size in sizes:
        # Few values, so that many classes are as likely as the right one.
        probabilities = random.choice([0.1, 0.2, 0.3], (size, 7)).astype(np.float32)
        probabilities[random.random((size, 7)) < random.choice([0.0, 0.02])] = np.nan
        batches.append(Outputs.of(probabilities, random.integers(0, 7, size).astype(np.float32)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counts, "HELD_BYTES", held)
        together = OutputCounts(3)
        for batch in batches:
            together.add(batch)
    assert together.finish() == sum((count(batch, 3) for batch in batches), Counts())
