"""How kopf is set up."""

import itertools

from imagenet_operator import handlers
from imagenet_operator.clusters.kubernetes.client import PAGE


def test_no_outage_ends_the_operator_and_each_is_over_soon() -> None:
    pauses = list(itertools.islice(handlers.RETRY_PAUSES, 10_000))
    assert len(pauses) == 10_000
    assert max(pauses) <= 5


def test_a_page_of_the_largest_objects_fits_into_memory() -> None:
    """Five copies of a page, as measured, take half of the chart's memory limit of 512 MiB."""
    assert handlers.settings().watching.chunk_size == PAGE
    assert 5 * PAGE * 1.5 <= 256
