"""Messages for people: a test asserts the facts of one, and not its other words."""

import re


def assert_says(text: str, *facts: str) -> None:
    """Assert that a message has these facts, in this order."""
    rest = text
    for fact in facts:
        _, found, rest = rest.partition(fact)
        assert found, f"{fact!r} is not in {text!r}, or not in this order"


def says(*facts: str) -> str:
    """Return a pattern for `match` of pytest.raises: these facts, in this order."""
    return "(?s)" + ".*".join(map(re.escape, facts))
