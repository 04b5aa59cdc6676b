"""How kopf is set up."""

from collections.abc import Iterable

from imagenet_operator import handlers


def test_an_outage_of_five_minutes_does_not_end_the_operator_and_is_over_soon() -> None:
    pauses = handlers._settings().networking.error_backoffs
    assert isinstance(pauses, Iterable)
    assert max(pauses) <= 5
    assert sum(pauses) >= 300
