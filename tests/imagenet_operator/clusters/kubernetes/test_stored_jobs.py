"""A thousand jobs that wait for one dataset: each is read once, whoever asks."""

from __future__ import annotations

from typing import Any

import pytest

from imagenet_operator.clusters.kubernetes import objects, stored_jobs
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.clusters.kubernetes.stored_jobs import Sharers
from support.job_table import manifest
from support.simulated_objects import INDEX_RESULT

Manifest = dict[str, Any]


def cache(kind: objects.Kind) -> Cache:
    def key(item: Manifest) -> tuple[str, str]:
        return item["metadata"]["namespace"], item["metadata"]["name"]

    return Cache(kind, key, lambda item: item, lambda job, debounce: None)


def listed(number: int, version: int = 1, **spec: Any) -> Manifest:
    """A job that knows which dataset it needs; one with a lower number is older."""
    document = manifest(name=f"job-{number}", dataset={"volume": {"claimName": "shared"}}, **spec)
    document["metadata"] |= {
        "uid": f"uid-{number}",
        "creationTimestamp": f"2026-01-02T03:04:{number:02}Z",
        "resourceVersion": str(version),
    }
    return document | {"status": {"dataset": INDEX_RESULT}}


def test_each_job_is_read_once_for_each_of_its_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, children = cache(objects.JOB), cache(objects.BY_NAME["Job"])
    for number in range(30):
        jobs.put(listed(number))
    asking = [stored_jobs.read(item).job for item in jobs.all()]
    read: list[str] = []
    original = stored_jobs.read

    def count(item: Any) -> Any:
        read.append(item.uid)
        return original(item)

    monkeypatch.setattr(stored_jobs, "read", count)
    sharers = Sharers(jobs, children)

    def firsts() -> list[str]:
        return [sharers.find(job)[0].name for job in asking]

    assert firsts() == ["job-1"] + ["job-0"] * 29
    assert sorted(read) == sorted(f"uid-{number}" for number in range(30))

    read.clear()
    jobs.put(listed(0, version=2, run_policy={"suspend": True}))
    assert firsts() == ["job-1", "job-2"] + ["job-1"] * 28
    assert read == ["uid-0"]

    read.clear()
    pack = {"metadata": {"namespace": "vision", "name": "job-7-pack", "uid": "p"}, "spec": {}}
    pack["metadata"]["resourceVersion"] = "3"
    children.put(pack)
    assert firsts() == ["job-7"] * 7 + ["job-1"] + ["job-7"] * 22
    jobs.delete(listed(7, version=9))
    assert [found.name for found in sharers.find(asking[9])] == ["job-1", "job-2"]
    assert read == []
