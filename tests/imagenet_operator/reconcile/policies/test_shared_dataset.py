"""Which of the jobs that need one dataset on one claim prepares it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import shared_dataset
from imagenet_operator.reconcile.types import Sharer
from imagenet_spec.resource import ImageNetJob
from support.job_table import manifest
from support.simulated_objects import INDEX_RESULT

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
EARLIER, LATER = NOW - timedelta(minutes=1), NOW + timedelta(minutes=1)


def listed(
    name: str = "digits",
    claim: str = "shared",
    created: datetime = NOW,
    uid: str = "m",
    conditions: tuple[tuple[str, datetime], ...] = (),
    **found: Any,
) -> ImageNetJob:
    """A job whose images are listed."""
    document = manifest(name=name, dataset={"volume": {"claimName": claim}})
    document["metadata"].update(creationTimestamp=created.isoformat(), uid=uid)
    return ImageNetJob.model_validate(
        document
        | {
            "status": {
                "dataset": INDEX_RESULT | found,
                "conditions": [
                    {
                        "type": kind,
                        "status": "True",
                        "reason": "Because",
                        "lastTransitionTime": moment.isoformat(),
                    }
                    for kind, moment in conditions
                ],
            }
        }
    )


def other(created: datetime = NOW, uid: str = "m", **known: Any) -> Sharer:
    return Sharer("other", uid, created, **known)


@pytest.mark.parametrize(
    ("sharers", "waits_for"),
    [
        ([], None),
        ([other(EARLIER, "x")], "x"),
        ([other(LATER, "a")], None),
        ([other(NOW, "a")], "a"),
        ([other(NOW, "x")], None),
        ([other(LATER, "x", packs=True)], "x"),
        ([other(EARLIER, "a"), other(LATER, "x", packs=True)], "x"),
        ([other(EARLIER, "a"), other(EARLIER, "b")], "a"),
        ([other(EARLIER, "a", goes_on=False), other(EARLIER, "b")], "b"),
        ([other(EARLIER, "a", packs=True, goes_on=False)], None),
        ([other(EARLIER, "a", sealed_at=LATER)], None),
    ],
)
def test_who_packs_goes_first_and_then_the_oldest(
    sharers: list[Sharer], waits_for: str | None
) -> None:
    found = shared_dataset.first(listed(), sharers)
    assert (None if found is None else found.uid) == waits_for


def test_of_any_number_of_jobs_one_has_its_turn() -> None:
    jobs = [listed(created=NOW + timedelta(seconds=n % 3), uid=str(n)) for n in range(7)]
    turns = [
        shared_dataset.first(
            job,
            [shared_dataset.sharer(item, is_run=True) for item in jobs if item is not job],
        )
        for job in jobs
    ]
    assert [found is None for found in turns] == [True] + 6 * [False]
    assert {found.uid for found in turns if found is not None} == {"0"}


@pytest.mark.parametrize(
    ("theirs", "shares"),
    [
        (listed("other"), True),
        (listed("other", claim="another"), False),
        (listed("other", key="f" * 32), False),
    ],
)
def test_a_dataset_is_shared_by_its_key_on_one_claim(theirs: ImageNetJob, shares: bool) -> None:
    assert (shared_dataset.need(listed()) == shared_dataset.need(theirs)) is shares


def test_a_claim_that_a_job_has_made_can_be_named_by_another_one() -> None:
    maker = listed("other")
    spec = maker.spec.dataset.volume
    assert spec is not None
    made = spec.model_copy(update={"claim_name": None, "size": "1Gi"})
    dataset = maker.spec.dataset.model_copy(update={"volume": made})
    maker = maker.model_copy(update={"spec": maker.spec.model_copy(update={"dataset": dataset})})
    mine = listed(claim="other-dataset")
    assert shared_dataset.need(mine) == shared_dataset.need(maker)


@pytest.mark.parametrize(
    ("conditions", "sealed"),
    [
        ((), False),
        ((("Created", LATER),), False),
        ((("DatasetReady", EARLIER),), False),
        ((("DatasetReady", NOW),), True),
        ((("DatasetReady", LATER), ("Failed", LATER)), True),
    ],
)
def test_a_seal_counts_if_it_is_newer_than_the_job(
    conditions: tuple[tuple[str, datetime], ...], sealed: bool
) -> None:
    theirs = listed("other", conditions=conditions, sealed=True)
    found = shared_dataset.sharer(theirs, is_run=True)
    assert shared_dataset.is_sealed(listed(), [found]) is sealed


@pytest.mark.parametrize(
    ("status", "needs"),
    [
        ({"dataset": INDEX_RESULT}, True),
        ({"dataset": INDEX_RESULT | {"sealed": True}}, False),
        ({"dataset": INDEX_RESULT, "completionTime": NOW.isoformat()}, False),
        ({"dataset": {"fetch": {"bytes": 1}}}, False),
        ({}, False),
    ],
)
def test_a_job_needs_its_turn_between_index_and_seal(status: Any, needs: bool) -> None:
    job = ImageNetJob.model_validate(manifest() | {"status": status})
    assert shared_dataset.needs_turn(job.status) is needs


@pytest.mark.parametrize("seed", range(20))
def test_the_decisive_jobs_decide_as_all_of_them_would(seed: int) -> None:
    random = Random(seed)
    sharers = [
        other(
            NOW + timedelta(seconds=random.randint(-2, 2)),
            str(number),
            packs=random.random() < 0.2,
            goes_on=random.random() < 0.7,
            sealed_at=NOW + timedelta(seconds=random.randint(-9, 9)) if seed % 3 == 0 else None,
        )
        for number in range(6)
    ]
    for mine in sharers:
        job = listed(created=mine.created, uid=mine.uid)
        others = [item for item in sharers if item is not mine]
        few = [item for item in shared_dataset.decisive(sharers) if item.uid != mine.uid]
        assert len(few) <= 4
        assert shared_dataset.first(job, few) == shared_dataset.first(job, others)
        assert shared_dataset.is_sealed(job, few) == shared_dataset.is_sealed(job, others)
