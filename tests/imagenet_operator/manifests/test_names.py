"""Names and labels: deterministic, and valid or refused."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.manifests import labels, names
from imagenet_spec.resource.fields import JOB_NAME_MAXIMUM, REPLICAS_MAXIMUM

DNS_1035_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
JOB_NAMES = st.from_regex(r"[a-z]([-a-z0-9]{0,38}[a-z0-9])?", fullmatch=True)


@pytest.mark.parametrize(
    ("built", "expected"),
    [
        (names.preparation_job("digits", "index"), "digits-index"),
        (names.preparation_job("digits", "pack"), "digits-pack"),
        (names.preparation_job("digits", "seal"), "digits-seal"),
        (names.claim("digits", "dataset"), "digits-dataset"),
        (names.claim("digits", "output"), "digits-output"),
        (names.preparation("digits"), "digits-preparation"),
        (names.service("digits", 0), "digits-r0"),
        (names.member("digits", 12, "worker", 3), "digits-r12-worker-3"),
        (names.address("digits", 0, "scheduler", 0), "digits-r0-scheduler-0.digits-r0"),
        (names.output_folder("digits", "6f3c1f0e-8a52-4c0e"), "jobs/digits-6f3c1f0e"),
        (names.dataset_folder("abc"), "datasets/abc"),
    ],
)
def test_names_are_those_that_the_documentation_promises(built: str, expected: str) -> None:
    assert built == expected


@given(
    job=JOB_NAMES,
    attempt=st.integers(0, 10**9 - 1),
    role=st.sampled_from(["scheduler", "server", "worker"]),
    index=st.integers(0, REPLICAS_MAXIMUM - 1),
)
def test_a_valid_job_has_valid_children(job: str, attempt: int, role: str, index: int) -> None:
    index = 0 if role == "scheduler" else index
    assert DNS_1035_LABEL.fullmatch(names.member(job, attempt, role, index))
    assert DNS_1035_LABEL.fullmatch(names.service(job, attempt))
    assert DNS_1035_LABEL.fullmatch(names.preparation(job))
    assert labels.of_role(job, attempt, role, 1) | labels.of_replica(index)


def test_the_longest_job_name_fits_and_a_longer_one_does_not() -> None:
    last = (10**9 - 1, "scheduler", 0)
    assert len(names.member("a" * JOB_NAME_MAXIMUM, *last)) == 63
    with pytest.raises(ValueError, match="cannot name an object: write at most 63"):
        names.member("a" * (JOB_NAME_MAXIMUM + 1), *last)


@pytest.mark.parametrize("name", ["", "9digits", "Digits", "dig.its", "dig_its", "-digits"])
def test_a_name_that_kubernetes_would_refuse_is_not_built(name: str) -> None:
    with pytest.raises(ValueError, match="cannot name an object"):
        names.claim(name, "dataset")


@pytest.mark.parametrize("value", ["a" * 64, "-a", "a b", "a/b"])
def test_a_label_that_kubernetes_would_refuse_is_not_built(value: str) -> None:
    with pytest.raises(ValueError, match=r"label training\.imagenet\.dev/job-name"):
        labels.of_child(value, "index")


def test_what_selects_an_attempt_is_on_all_its_members_and_on_no_other() -> None:
    selector = labels.select_attempt("digits", 1).items()
    assert selector <= labels.of_role("digits", 1, "worker", 7).items()
    assert selector <= labels.of_role("digits", 1, "scheduler", 7).items()
    assert not selector <= labels.of_role("digits", 11, "worker", 7).items()
    assert not selector <= labels.of_role("digits-1", 1, "worker", 7).items()
    assert not selector <= labels.of_child("digits", "pack").items()
