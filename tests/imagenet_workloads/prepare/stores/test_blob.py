"""Calls in threads give their results in the order of the items."""

import threading
from collections.abc import Iterator

import pytest

from imagenet_workloads.prepare.stores.blob import map_in_order


def test_results_are_in_order_although_a_later_call_ends_first() -> None:
    later = threading.Event()

    def call(item: int) -> int:
        if item == 0:
            assert later.wait(60)
        else:
            later.set()
        return item * 10

    assert list(map_in_order(call, range(5), 2)) == [0, 10, 20, 30, 40]


def test_items_are_taken_no_further_ahead_than_the_threads_need() -> None:
    taken: list[int] = []

    def items() -> Iterator[int]:
        for item in range(100):
            taken.append(item)
            yield item

    results = map_in_order(lambda item: item, items(), 3)
    assert next(results) == 0
    assert len(taken) == 6
    results.close()


def test_an_error_takes_the_place_of_a_result() -> None:
    def call(item: int) -> int:
        if item == 2:
            raise ValueError("two")
        return item

    results = map_in_order(call, range(100), 2)
    assert [next(results), next(results)] == [0, 1]
    with pytest.raises(ValueError, match="two"):
        next(results)
