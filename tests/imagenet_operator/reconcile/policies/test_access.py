"""What existing claims allow: who shares a node, and which jobs cannot be."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from imagenet_operator.reconcile.policies import waiting
from imagenet_operator.reconcile.types import Claim
from support.attempt_members import NOW
from support.job_table import FETCHED, PREPARED, manifest, read
from support.sentences import assert_says

Manifest = dict[str, Any]

MANY, ONCE, READ, POD = "ReadWriteMany", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOncePod"
SHARED: Manifest = {"volume": {"claimName": "shared"}}
RESULTS: Manifest = {"volume": {"claimName": "results"}}
ONE: Manifest = {"workers": {"replicas": 1}}

JOBS = {
    "packs and trains": read(manifest(dataset=SHARED)),
    "packs alone": read(
        manifest(dataset={**SHARED, "preprocessing": {"parallelism": 1}}, training=ONE)
    ),
    "trains what is prepared": read(manifest(dataset={"source": PREPARED, "volume": None})),
    "makes smaller images": read(
        manifest(dataset={"source": PREPARED, "preprocessing": {"resize": 9}, **RESULTS})
    ),
    "writes elsewhere": read(
        manifest(dataset={"source": PREPARED, "volume": None}, training={"output": RESULTS})
    ),
    "has its claims made": read(manifest()),
    "fetches": read(manifest(dataset={"source": FETCHED})),
    "writes to what it makes": read(
        manifest(training={"output": {"volume": {"claimName": "digits-dataset"}}})
    ),
}


@pytest.mark.parametrize(
    ("job", "modes", "shared"),
    [
        ("packs and trains", {"raw": [MANY], "shared": [MANY]}, ()),
        ("packs and trains", {"raw": [ONCE], "shared": [MANY]}, ("raw",)),
        ("packs and trains", {"raw": [READ], "shared": [ONCE]}, ("shared",)),
        ("packs and trains", {"raw": [ONCE, READ], "shared": [ONCE, READ]}, ("shared",)),
        ("packs and trains", {"raw": [ONCE], "shared": [ONCE]}, ("raw", "shared")),
        ("packs and trains", {}, ()),
        ("trains what is prepared", {"shared": [ONCE, MANY]}, ()),
        ("trains what is prepared", {"shared": [ONCE]}, ("shared",)),
        ("trains what is prepared", {"shared": [ONCE, READ]}, ("shared",)),
        ("makes smaller images", {"shared": [READ], "results": [MANY]}, ()),
        ("makes smaller images", {"shared": [ONCE], "results": [MANY]}, ("shared",)),
        ("writes elsewhere", {"shared": [READ], "results": [MANY]}, ()),
        ("writes elsewhere", {"shared": [READ], "results": [ONCE]}, ("results",)),
        ("has its claims made", {"digits-dataset": [ONCE], "raw": [MANY]}, ()),
        ("fetches", {"cache": [MANY]}, ()),
        ("fetches", {"cache": [ONCE, READ]}, ("cache",)),
    ],
)
def test_which_claims_keep_pods_on_one_node(
    job: str, modes: dict[str, list[str]], shared: tuple[str, ...]
) -> None:
    seen = {claim: tuple(found) for claim, found in modes.items()}
    assert waiting.single_node_claims(JOBS[job], seen) == shared
    assert waiting.claim_problems(JOBS[job], seen) == []


@pytest.mark.parametrize(
    ("job", "absent", "waits_for"),
    [
        ("packs and trains", set(), None),
        (
            "packs and trains",
            {"shared"},
            ["spec.dataset.volume.claimName: ", "no PersistentVolumeClaim shared"],
        ),
        (
            "writes elsewhere",
            {"shared", "results"},
            [
                "spec.dataset.source.prepared.claimName: ",
                "no PersistentVolumeClaim shared; ",
                "spec.training.output.volume.claimName: ",
                "no PersistentVolumeClaim results",
            ],
        ),
        ("writes to what it makes", {"digits-dataset"}, None),
    ],
)
def test_a_start_waits_for_claims_that_others_make(
    job: str, absent: set[str], waits_for: list[str] | None
) -> None:
    message = waiting.missing_claims(JOBS[job], absent)
    assert (message is None) == (waits_for is None)
    assert_says(message or "", *(waits_for or []))


@pytest.mark.parametrize(
    ("job", "modes", "problems"),
    [
        (
            "packs and trains",
            {"shared": [POD]},
            [("spec.dataset.volume.claimName", "preprocessing.parallelism says 8")],
        ),
        (
            "packs and trains",
            {"shared": [READ], "raw": [POD]},
            [
                ("spec.dataset.source.volume.claimName", "preprocessing.parallelism says 8"),
                ("spec.dataset.volume.claimName", "has to write"),
            ],
        ),
        ("packs alone", {"shared": [POD], "raw": [POD]}, []),
        (
            "trains what is prepared",
            {"shared": [READ]},
            [("spec.dataset.source.prepared.claimName", "has to write")],
        ),
        ("writes elsewhere", {"shared": [READ]}, []),
        (
            "writes elsewhere",
            {"results": [POD]},
            [("spec.training.output.volume.claimName", "workers.replicas says 2")],
        ),
    ],
)
def test_what_cannot_be_is_said_with_its_remedy(
    job: str, modes: dict[str, list[str]], problems: list[tuple[str, str]]
) -> None:
    seen = {claim: tuple(found) for claim, found in modes.items()}
    found = waiting.claim_problems(JOBS[job], seen)
    assert [problem.path for problem in found] == [path for path, _ in problems]
    for problem, (_, fact) in zip(found, problems, strict=True):
        assert fact in problem.message
        assert "ReadWriteMany" in (problem.hint or "")


def test_a_cache_must_exist_and_be_writable() -> None:
    path = "spec.dataset.source.http.cache.claimName"
    found = waiting.missing_claims(JOBS["fetches"], {"cache"})
    assert found is not None
    assert found.startswith(f"{path}: there is no PersistentVolumeClaim cache")
    (problem,) = waiting.claim_problems(JOBS["fetches"], {"cache": (READ,)})
    assert (problem.path, "has to write" in problem.message) == (path, True)


def of_former_job(modes: tuple[str, ...], storage_class: str | None, age: float = 60) -> Claim:
    created = NOW - timedelta(seconds=age)
    return Claim(
        "digits-dataset", "uid-c", created=created, modes=modes, storage_class=storage_class
    )


@pytest.mark.parametrize(
    ("claim", "facts"),
    [
        (of_former_job((MANY,), "fast"), None),
        (of_former_job((MANY,), None), ("StorageClass none; ", "the job asks for", "fast")),
        (of_former_job((MANY,), "slow"), ("StorageClass slow; ", "the job asks for", "fast")),
        (of_former_job((ONCE,), "fast"), ("ReadWriteOnce; ", "the job asks for ReadWriteMany")),
        # The API server or a webhook may change what this job asked for.
        (of_former_job((ONCE,), "slow", age=0), None),
    ],
)
def test_a_claim_of_a_former_job_that_differs_is_named(
    claim: Claim, facts: tuple[str, ...] | None
) -> None:
    document = manifest(dataset={"volume": {"size": "1Gi", "storageClassName": "fast"}})
    document["metadata"]["creationTimestamp"] = NOW.isoformat()
    found = waiting.differing_claims(read(document), {claim.name: claim})
    assert [item for item, _ in found] == ([] if facts is None else [claim])
    for _, message in found:
        assert_says(message, *(facts or ()))
