"""A scrape: what is read of a pod's text, in whatever pieces it comes."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from imagenet_operator.reconcile.scrape import (
    LINE_MAXIMUM,
    BeforeExchange,
    Scrape,
    ScrapeReader,
)
from imagenet_spec.metrics import TRAIN_BEFORE_EXCHANGE, TRAIN_EXCHANGES

BEFORE_EXCHANGE, EXCHANGES = TRAIN_BEFORE_EXCHANGE.name, TRAIN_EXCHANGES.name
WANTED = frozenset({"images_total", "speed", BEFORE_EXCHANGE, EXCHANGES})
TEXT = b"""\
# HELP images_total Images.
# TYPE images_total counter
images_total{role="worker",attempt="3",name="a \\"b\\" } c, d=\\\\"} 12.0
speed{role="worker",attempt="3"} 1.5e2 1700000000000

other{role="worker",attempt="3"} 9
"""


def read(*pieces: bytes) -> Scrape | None:
    reader = ScrapeReader(WANTED)
    for piece in pieces:
        reader.feed(piece)
    return reader.scrape()


def test_wanted_series_and_common_labels_are_kept() -> None:
    assert read(TEXT) == Scrape("worker", 3, {"images_total": 12.0, "speed": 150.0})


@given(st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_pieces_make_no_difference(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(TEXT)]
    pieces = [TEXT[begin:end] for begin, end in itertools.pairwise(places)]
    assert read(*pieces) == read(TEXT)


@given(st.integers(1, len(TEXT) - 1))
def test_a_text_that_is_cut_within_a_line_is_damaged(end: int) -> None:
    assert (read(TEXT[:end]) is None) == (not TEXT[:end].endswith(b"\n"))


@given(
    st.dictionaries(st.sampled_from(["a", "b", "role_", "x"]), st.text(max_size=20), max_size=3),
    st.floats(),
)
def test_a_line_is_read_as_prometheus_reads_it(labels: dict[str, str], value: float) -> None:
    registry = CollectorRegistry()
    names = ["role", "attempt", *labels]
    Counter("images", "…", names, registry=registry).labels("worker", "7", *labels.values())
    Gauge("speed", "…", names, registry=registry).labels("w", "7", *labels.values()).set(value)
    text = generate_latest(registry)
    expected = {
        sample.name: sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name in WANTED and abs(sample.value) < float("inf")
    }
    assert read(text) == Scrape("w", 7, expected)


def of_slots(*lines: tuple[str, str, float]) -> Scrape | None:
    """What is read of series of slots: name, slot, value."""
    labels = 'role="worker",attempt="0"'
    text = "".join(f'{name}{{{labels},slot="{slot}"}} {value}\n' for name, slot, value in lines)
    return read(f"images_total{{{labels}}} 1\n{text}speed{{{labels}}} 2\n".encode())


def test_the_times_before_an_exchange_are_kept_by_slot() -> None:
    found = of_slots((BEFORE_EXCHANGE, "0", 1.5), (BEFORE_EXCHANGE, "11", 2.5), (EXCHANGES, "0", 3))
    assert found is not None
    assert found.before_exchange == {"0": BeforeExchange(1.5, 3)}
    text = f"{BEFORE_EXCHANGE} 1.5\n{EXCHANGES} 3\n".encode()
    alone = read(text)
    assert alone is not None
    assert alone.before_exchange == {"": BeforeExchange(1.5, 3)}


@pytest.mark.parametrize("slot", ["x", "-1", "1" * 11, "1.0"])
def test_a_slot_that_is_no_number_is_ignored(slot: str) -> None:
    found = of_slots((BEFORE_EXCHANGE, slot, 1.5), (EXCHANGES, slot, 3))
    assert found is not None
    assert found.before_exchange == {}


def test_a_time_that_is_no_number_is_ignored() -> None:
    found = of_slots((BEFORE_EXCHANGE, "0", float("nan")), (EXCHANGES, "0", 3))
    assert found is not None
    assert found.before_exchange == {}


@pytest.mark.parametrize(
    "line",
    ["speed{", "speed", "speed{} ", "speed{a=b} 1", "speed one", "speed 1 2 3", 'speed{a="b} 1'],
)
def test_a_line_that_is_no_series_damages_the_text(line: str) -> None:
    assert read(f"images_total 1\n{line}\n".encode()) is None
    assert read(b"images_total 1\n\xff\n") is None


@pytest.mark.parametrize("pieces", [1, 5000])
def test_a_line_that_is_too_long_is_passed_over(pieces: int) -> None:
    long = b"# HELP images_total " + b"x" * LINE_MAXIMUM * 5 + b"\n"
    size = len(long) // pieces or 1
    cut = [long[begin : begin + size] for begin in range(0, len(long), size)]
    assert read(b"speed 1\n", *cut, b"images_total 2\n") == Scrape(
        "", None, {"speed": 1.0, "images_total": 2.0}
    )


def test_a_scrape_is_small_whatever_the_text_says() -> None:
    reader = ScrapeReader(WANTED)
    for index in range(10000):
        reader.feed(f'speed{{role="worker",attempt="0",slot="{index}"}} 1\n'.encode())
        reader.feed(f"other_{index} 1\n".encode())
    assert reader.scrape() == Scrape("worker", 0, {"speed": 10000.0})


@pytest.mark.parametrize("line", ["a" * 1000, 'a{b="' + "\\" * 900, "a{" + "}" * 900 + " x y z"])
def test_a_hostile_line_takes_no_longer_than_others(line: str) -> None:
    """Each is read in one go over the line: no step of it may look back over all of it."""
    reader = ScrapeReader(WANTED)
    for _ in range(2000):
        reader.feed(line.encode() + b"\n")
    assert reader.scrape() is None
