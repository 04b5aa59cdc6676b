"""The sentence about members that are left out: bounded, and the same while it is true."""

from __future__ import annotations

import pytest

from imagenet_operator.clusters.sampler import NO_TIME, LeftOut
from imagenet_operator.clusters.untrusted_http import REDIRECTED, TOO_LONG

MEMBERS = [f"w-{index:03}" for index in range(1000)]
Found = dict[str, str]


def said(*samples: Found, members: list[str] = MEMBERS) -> list[str]:
    """Return the sentence after each sample."""
    state, sentences = LeftOut(), []
    for found in samples:
        state = state.updated(found, members)
        sentences.append(state.sentence)
    return sentences


def test_members_are_named_with_their_limits() -> None:
    found = {"w-001": REDIRECTED, "w-000": NO_TIME, "w-002": TOO_LONG}
    assert said({}, found, {}) == [
        "",
        "w-001 (redirected), w-002 (more than 64 KiB), w-000 (no time left)",
        "",
    ]


def test_the_sentence_is_bounded() -> None:
    (sentence,) = said(dict.fromkeys(MEMBERS, REDIRECTED))
    assert sentence.count("w-") == 5
    assert sentence.endswith("w-004 (redirected) and 995 more")


@pytest.mark.parametrize(
    "later",
    [
        dict.fromkeys(MEMBERS[500:], NO_TIME),
        dict.fromkeys(MEMBERS[:3], NO_TIME),
    ],
    ids=["others", "fewer"],
)
def test_which_members_have_no_time_left_is_no_news(later: Found) -> None:
    first, second = said(dict.fromkeys(MEMBERS[:100], NO_TIME), later)
    assert first == second != ""


def test_a_hostile_member_without_a_turn_is_no_news() -> None:
    """Among thousands, another part has its turn in each sample."""
    both = dict.fromkeys(MEMBERS, REDIRECTED)
    first, second = said(
        {**both, "w-999": NO_TIME}, {**both, "w-000": NO_TIME, "w-999": REDIRECTED}
    )
    assert first == second


@pytest.mark.parametrize(
    ("later", "sentence"),
    [
        ({"w-001": REDIRECTED}, "w-001 (redirected)"),
        ({"w-000": TOO_LONG}, "w-000 (more than 64 KiB)"),
        ({}, ""),
    ],
    ids=["another", "another limit", "none"],
)
def test_what_is_no_longer_true_is_replaced(later: Found, sentence: str) -> None:
    assert said({"w-000": REDIRECTED}, later) == ["w-000 (redirected)", sentence]


def test_a_member_that_is_left_out_later_is_named_too() -> None:
    """The first sample may have come before the program of the second member."""
    one = {"w-000": REDIRECTED}
    both = "w-000 (redirected), w-001 (redirected)"
    assert said(one, {**one, "w-001": REDIRECTED}) == ["w-000 (redirected)", both]


def test_members_are_named_once_each_has_had_a_turn() -> None:
    former, later = (
        {"w-000": REDIRECTED, "w-001": NO_TIME},
        {"w-000": NO_TIME, "w-001": REDIRECTED},
    )
    _, *sentences = said(former, later, former, later)
    assert sentences == ["w-000 (redirected), w-001 (redirected)"] * 3


def test_members_of_a_former_attempt_are_replaced() -> None:
    state = LeftOut().updated({"r0-w-0": NO_TIME}, ["r0-w-0"])
    state = state.updated({"r1-w-0": NO_TIME}, ["r1-w-0"])
    assert state.sentence == "r1-w-0 (no time left)"
