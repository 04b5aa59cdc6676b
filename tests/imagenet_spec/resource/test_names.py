"""A job's longest name still leaves room for every child's."""

from __future__ import annotations

import re

import pytest

from imagenet_operator.manifests import names
from imagenet_spec.resource.fields import (
    ATTEMPT_DIGITS,
    DNS_LABEL,
    JOB_NAME_MAXIMUM,
    LABEL_MAXIMUM,
    REPLICAS_MAXIMUM,
)
from imagenet_spec.resource.templates import own_program

LONGEST = "a" * JOB_NAME_MAXIMUM
LAST_ATTEMPT = 10**ATTEMPT_DIGITS - 1

CHILDREN = [
    *(names.preparation_job(LONGEST, role) for role in ("fetch", "index", "pack", "seal")),
    *(names.claim(LONGEST, purpose) for purpose in ("dataset", "output")),
    names.service(LONGEST, LAST_ATTEMPT),
    names.member(LONGEST, LAST_ATTEMPT, "scheduler", 0),
    names.member(LONGEST, LAST_ATTEMPT, "rendezvous", 0),
    names.member(LONGEST, LAST_ATTEMPT, "server", REPLICAS_MAXIMUM - 1),
    names.member(LONGEST, LAST_ATTEMPT, "worker", REPLICAS_MAXIMUM - 1),
]


def test_the_limit_is_the_one_that_is_documented() -> None:
    assert JOB_NAME_MAXIMUM == 40


@pytest.mark.parametrize("child", CHILDREN)
def test_every_child_of_the_longest_name_is_a_label(child: str) -> None:
    assert len(child) <= LABEL_MAXIMUM
    assert re.fullmatch(DNS_LABEL, child)


def test_the_limit_is_not_stricter_than_needed() -> None:
    assert max(map(len, CHILDREN)) == LABEL_MAXIMUM


def test_templates_and_builders_mean_the_same_container() -> None:
    assert own_program.MAIN_CONTAINER == names.CONTAINER
