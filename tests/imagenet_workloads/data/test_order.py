"""Each epoch has each record once, in an order that no number of workers changes."""

import re
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_spec.order import DIVISORS, LANES, WINDOW, count_lanes
from imagenet_workloads.data.order import (
    Order,
    batches_per_epoch,
    share,
    uniform_draws,
    worker_positions,
)
from support.pod_subset import REPOSITORY

PAGE = (REPOSITORY / "docs" / "order.md").read_text()
RECORDS, SEEDS, EPOCHS = st.integers(1, 5000), st.integers(0, 2**31), st.integers(0, 1000)


def records_at(order: Order, epoch: int, positions: range) -> list[int]:
    found: list[int] = order.at(epoch, np.array(positions, np.int64)).tolist()
    return found


@given(RECORDS, SEEDS, EPOCHS)
def test_an_epoch_has_each_record_once(records: int, seed: int, epoch: int) -> None:
    order = Order(records, seed)
    assert sorted(records_at(order, epoch, range(records))) == list(range(records))


@given(RECORDS, SEEDS, EPOCHS, st.one_of(st.sampled_from(DIVISORS), st.integers(1, 40)), st.data())
def test_workers_divide_the_rest_of_an_epoch(
    records: int, seed: int, epoch: int, workers: int, data: st.DataObject
) -> None:
    order, first = Order(records, seed), data.draw(st.integers(0, records))
    whole = records_at(order, epoch, range(records))
    for worker in range(workers):
        positions = worker_positions(first, records, worker, workers)
        assert (positions % workers == worker).all()
        assert order.at(epoch, positions).tolist() == [whole[place] for place in positions]
    parts = [worker_positions(first, records, worker, workers) for worker in range(workers)]
    assert sorted(np.concatenate(parts)) == list(range(first, records))


@pytest.mark.parametrize("workers", [1, 2, 7, 8, 15, 210])
def test_a_worker_reads_the_same_lanes_in_every_epoch(workers: int) -> None:
    records = LANES * 40 + 3
    order = Order(records, 0)
    assert order.lanes == LANES

    def read(epoch: int) -> list[int]:
        mine = worker_positions(0, records, workers - 1, workers)
        return sorted(order.at(epoch, mine).tolist())

    assert read(0) == read(1)
    assert order.at(0, np.arange(records)).tolist() != order.at(1, np.arange(records)).tolist()


@given(RECORDS, SEEDS, EPOCHS, st.data())
def test_a_window_is_at_most_16_neighbours_of_one_lane(
    records: int, seed: int, epoch: int, data: st.DataObject
) -> None:
    order = Order(records, seed)
    lane = data.draw(st.integers(0, order.lanes - 1))
    position, read = lane, []
    while position < records:
        (first,), (end,), (after,) = order.windows(epoch, np.array([position]))
        turns = range(position, after, order.lanes)
        assert sorted(records_at(order, epoch, turns)) == list(range(first, end))
        assert end - first <= WINDOW
        # The window is the same from any of its positions.
        for column in order.windows(epoch, np.array(turns)):
            assert len(set(column)) == 1
        read.append(range(first, end))
        position = after
    # From end to end: after a window comes the next one, but once the lane begins again.
    assert sum(before.stop != after.start for before, after in pairwise(read)) <= 1
    assert position == lane + sum(map(len, read)) * order.lanes


def test_epochs_and_seeds_differ() -> None:
    orders = {
        tuple(records_at(Order(1347, seed), epoch, range(1347)))
        for seed in range(8)
        for epoch in range(8)
    }
    assert len(orders) == 64


@pytest.mark.parametrize(
    ("records", "lanes"), [(0, 1), (1, 1), (63, 1), (64, 2), (1347, 42), (26879, 420), (26880, 840)]
)
def test_small_splits_have_fewer_lanes(records: int, lanes: int) -> None:
    assert count_lanes(records) == Order(records, 0).lanes == lanes


def test_an_empty_split_has_no_order() -> None:
    assert records_at(Order(0, 0), 0, range(0)) == []


def test_draws_are_even_and_belong_to_a_position() -> None:
    positions = np.arange(20_000)
    drawn = uniform_draws(3, 5, positions, 4)
    assert drawn.min() >= 0 and drawn.max() < 1
    assert np.abs(drawn.mean(axis=0) - 0.5).max() < 0.01
    assert np.abs(np.corrcoef(drawn, rowvar=False) - np.eye(4)).max() < 0.03
    some = np.array([17, 4, 19_999])
    assert (uniform_draws(3, 5, some, 2) == drawn[some, :2]).all()
    assert not np.isin(drawn, uniform_draws(3, 6, positions, 4)).any()


def test_the_page_has_its_test_vectors() -> None:
    number = r"\| ([\d,]+) "
    rows = re.findall(rf"^{number * 4}\| (\d[\d ,]*) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 8
    for row in rows:
        records, seed, epoch, first = (int(cell.replace(",", "")) for cell in row[:4])
        expected = [int(record) for record in row[4].split(", ")]
        positions = range(first, first + len(expected))
        assert records_at(Order(records, seed), epoch, positions) == expected
        assert [by_the_page(records, seed, epoch, place) for place in positions] == expected


def test_the_page_has_its_random_numbers() -> None:
    rows = re.findall(r"^\| (\d+) \| (\d+) \| ([\d,]+) \| ([\d., ]+) \|$", PAGE, re.MULTILINE)
    assert len(rows) == 4
    for seed, epoch, position, numbers in rows:
        at = np.array([int(position.replace(",", ""))])
        drawn = uniform_draws(int(seed), int(epoch), at, 4)[0]
        assert ", ".join(f"{value:.6f}" for value in drawn) == numbers
    assert f"S(0, 0) is 0x{page_hash(0, 0):X}" in PAGE


def page_hash(state: int, index: int) -> int:
    z = (state + (index + 1) * 0x9E3779B97F4A7C15) % 2**64
    z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) % 2**64
    z = ((z ^ z >> 27) * 0x94D049BB133111EB) % 2**64
    return z ^ z >> 31


def by_the_page(records: int, seed: int, epoch: int, position: int) -> int:
    """Follow docs/order.md step by step, one record at a time."""
    lanes = max(n for n in range(1, 841) if 840 % n == 0 and (n == 1 or records // n >= 32))
    turn, lane = divmod(position, lanes)
    state = page_hash(page_hash(seed, 2 * epoch), lane)
    length = records // lanes + (lane < records % lanes)
    begin = sum(records // lanes + (before < records % lanes) for before in range(lane))
    start = page_hash(state, 0) % length
    ring = [(start + step) % length for step in range(length)]

    def window(step: int) -> tuple[int, bool]:
        return ring[step] // 16, ring[step] >= start

    piece = [ring[step] for step in range(length) if window(step) == window(turn)]
    piece_begin = next(step for step in range(length) if window(step) == window(turn))
    shuffled = sorted(piece, key=lambda slot: page_hash(state, 1 + slot) // 2)
    return begin + shuffled[turn - piece_begin]


IMAGES, RANKS = st.integers(0, 10_000), st.integers(1, 64)


@given(images=IMAGES, ranks=RANKS)
def test_shares_are_the_whole(images: int, ranks: int) -> None:
    shares = [share(images, rank, ranks) for rank in range(ranks)]
    assert sum(shares) == images
    assert shares == sorted(shares, reverse=True)
    assert min(shares) >= 0


@given(images=IMAGES, ranks=RANKS, batch=st.integers(1, 512), accumulation_steps=st.integers(1, 5))
def test_an_epoch_sees_every_image(
    images: int, ranks: int, batch: int, accumulation_steps: int
) -> None:
    batches = batches_per_epoch(images, ranks, batch, accumulation_steps)
    assert batches % accumulation_steps == 0
    assert batches * batch >= share(images, 0, ranks)
    assert (batches - accumulation_steps) * batch < share(images, 0, ranks) or batches == 0


@pytest.mark.parametrize(
    ("images", "ranks", "batch", "batches"),
    [(50, 3, 8, 3), (1281167, 16, 512, 157), (1, 1, 128, 1)],
)
def test_known_epochs(images: int, ranks: int, batch: int, batches: int) -> None:
    assert batches_per_epoch(images, ranks, batch, 1) == batches
