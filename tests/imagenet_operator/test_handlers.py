"""How kopf is set up."""

from collections.abc import Iterable

from imagenet_operator import handlers
from imagenet_operator.clusters.kubernetes.client import PAGE


def test_an_outage_of_five_minutes_does_not_end_the_operator_and_is_over_soon() -> None:
    pauses = handlers._settings().networking.error_backoffs
    assert isinstance(pauses, Iterable)
    assert max(pauses) <= 5
    assert sum(pauses) >= 300


def test_a_page_of_the_largest_objects_fits_into_memory() -> None:
    """Five copies of a page, as measured, take half of the chart's memory limit of 512 MiB."""
    assert handlers._settings().watching.chunk_size == PAGE
    assert 5 * PAGE * 1.5 <= 256
