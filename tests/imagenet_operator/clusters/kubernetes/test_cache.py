"""The cache: whatever order answers come in, the newest counts and what ended stays ended."""

import tracemalloc
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from imagenet_operator.clusters.interface import JobKey
from imagenet_operator.clusters.kubernetes import objects
from imagenet_operator.clusters.kubernetes.cluster import job_of_child
from imagenet_operator.clusters.kubernetes.objects import Cache
from imagenet_operator.manifests import labels

Manifest = dict[str, Any]
JOB = ("vision", "digits")


class Enqueued(list[tuple[JobKey, bool]]):
    """The jobs that changes in a cache enqueued, and whether debounced."""

    def __call__(self, key: JobKey, debounce: bool) -> None:
        self.append((key, debounce))


@pytest.fixture
def enqueued() -> Enqueued:
    return Enqueued()


@pytest.fixture
def cache(enqueued: Enqueued) -> Cache:
    return Cache(
        objects.POD,
        job_of_child,
        objects.project_pod,
        enqueued,
        lambda item: item["status"]["phase"] == "Running",
    )


def pod(version: int, uid: str = "u", name: str = "a", phase: str = "Pending") -> Manifest:
    return {
        "metadata": {
            "name": name,
            "namespace": "vision",
            "uid": uid,
            "resourceVersion": str(version),
            "labels": {labels.JOB_NAME: "digits"},
            "managedFields": [{"manager": "kubelet"}],
            "annotations": {"long": "text"},
        },
        "spec": {"containers": [{"name": "main", "env": [{"name": "A", "value": "b"}]}]},
        "status": {"phase": phase},
    }


def phases(cache: Cache) -> list[str]:
    return [stored.manifest()["status"]["phase"] for stored in cache.of_job(JOB)]


def test_an_object_takes_hardly_more_memory_than_its_text(cache: Cache) -> None:
    pods = [pod(5, f"uid-{number}", f"pod-{number}") for number in range(50)]
    tracemalloc.start()
    for manifest in pods:
        cache.put(manifest)
    taken, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    text = sum(len(stored.text) for stored in cache.all())
    assert taken < 2 * text + len(pods) * 600


def test_jobs_are_found_by_the_node_that_they_have_a_pod_on(cache: Cache) -> None:
    for number, node in enumerate((None, "near", "near", "far")):
        there = pod(5, f"uid-{number}", f"pod-{number}")
        if node is not None:
            there["spec"]["nodeName"] = node
        cache.put(there)
    stray = pod(5, "uid-stray", "stray")
    del stray["metadata"]["labels"]
    stray["spec"]["nodeName"] = "elsewhere"
    cache.put(stray)

    assert cache.jobs_on("near") == cache.jobs_on("far") == {JOB}
    assert cache.jobs_on("elsewhere") == set()


def test_an_object_comes_back_typed_trimmed_and_as_a_copy(cache: Cache) -> None:
    cache.put(pod(5))

    (first,) = cache.of_job(JOB)
    first.manifest()["metadata"]["labels"].clear()

    found = first.manifest()
    assert (found["kind"], found["apiVersion"]) == ("Pod", "v1")
    assert found["metadata"] == {
        "name": "a",
        "namespace": "vision",
        "uid": "u",
        "resourceVersion": "5",
        "labels": {labels.JOB_NAME: "digits"},
    }
    assert found["spec"] == {"containers": [{"name": "main"}]}


def test_what_is_collected_first_is_what_would_be_kept(cache: Cache) -> None:
    key, stored = cache.entry(pod(5))
    cache.put(pod(5))
    assert cache.get(*key) == stored


def test_something_older_never_replaces_something_newer(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(7, phase="Running"))

    assert not cache.put(pod(6, phase="Pending"))
    assert not cache.put(pod(7, phase="Failed"))
    assert phases(cache) == ["Running"]
    assert enqueued == [(JOB, True)]


def test_a_change_may_wait_and_an_end_may_not(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(5))
    cache.put(pod(6, phase="Running"))
    cache.delete(pod(7, phase="Running"))

    assert enqueued == [(JOB, False), (JOB, True), (JOB, False)]


def test_our_own_answers_tell_nobody_nor_does_their_echo(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(5), silently=True)
    cache.put(pod(5))

    assert enqueued == []


def test_a_change_of_what_is_not_kept_tells_nobody(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(5))
    changed = pod(6)
    changed["metadata"]["annotations"]["long"] = "other"
    cache.put(changed)

    assert enqueued == [(JOB, False)]
    assert cache.put(pod(7, phase="Running"))


@pytest.mark.parametrize("late", [5, 8, 9])
def test_what_has_ended_does_not_come_back_by_a_late_answer(cache: Cache, late: int) -> None:
    cache.put(pod(5))
    cache.delete(pod(9))

    cache.put(pod(late), silently=True)

    assert phases(cache) == []


def test_an_end_that_is_heard_before_its_beginning_counts(cache: Cache) -> None:
    cache.delete(pod(9))
    cache.put(pod(5))

    assert len(cache) == 0


def test_the_end_of_a_predecessor_does_not_end_its_successor(cache: Cache) -> None:
    cache.put(pod(5, uid="old"))
    cache.put(pod(12, uid="new", phase="Running"))
    cache.delete(pod(10, uid="old"))
    cache.put(pod(8, uid="old"))

    assert phases(cache) == ["Running"]


def test_an_object_that_loses_its_label_and_gets_it_back_is_seen_again(cache: Cache) -> None:
    cache.put(pod(5))
    cache.delete(pod(6))
    cache.put(pod(7))

    assert phases(cache) == ["Pending"]


def test_a_list_ends_what_is_not_in_it_and_older(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(5, uid="x", name="older"))
    cache.put(pod(21, uid="y", name="younger"))
    enqueued.clear()

    cache.replace([cache.entry(pod(9, uid="z", name="new"))], 20, cache.keys())

    assert [item.manifest()["metadata"]["name"] for item in cache.of_job(JOB)] == ["new", "younger"]
    assert enqueued == [(JOB, False), (JOB, False)]
    assert not cache.put(pod(15, uid="x", name="older"))


def test_a_list_of_one_namespace_leaves_the_others(cache: Cache) -> None:
    cache.put(pod(5))

    cache.replace([], 20, cache.keys("elsewhere"))

    assert len(cache) == 1


def test_what_goes_while_a_list_is_read_is_no_error(cache: Cache) -> None:
    cache.put(pod(5))
    candidates = cache.keys()
    cache.delete(pod(6))

    cache.replace([], 20, candidates)

    assert len(cache) == 0


def test_an_object_that_changes_its_job_is_told_to_both(cache: Cache, enqueued: Enqueued) -> None:
    cache.put(pod(5))
    moved = pod(6)
    moved["metadata"]["labels"][labels.JOB_NAME] = "other"
    enqueued.clear()

    cache.put(moved)

    assert [key for key, _ in enqueued] == [JOB, ("vision", "other")]
    assert cache.of_job(JOB) == []
    assert cache.jobs() == [("vision", "other")]


@given(st.lists(st.integers(1, 3), min_size=1, max_size=4), st.booleans(), st.randoms())
def test_any_order_of_hearing_ends_in_the_same(
    lives: list[int], is_alive: bool, random: Random
) -> None:
    """Objects of one name live one after the other; all of it is heard twice, in any order."""
    history: list[tuple[str, Manifest]] = []
    for number, states in enumerate(lives):
        uid, ends = f"uid-{number}", not is_alive or number < len(lives) - 1
        for what in ["put"] * states + ["delete"] * ends:
            version = len(history) + 1
            history.append((what, pod(version, uid=uid, phase=f"at {version}")))
    cache = Cache(objects.POD, job_of_child, objects.project_pod, Enqueued())

    for what, item in random.sample(history * 2, len(history) * 2):
        getattr(cache, what)(item)

    assert phases(cache) == ([f"at {len(history)}"] if is_alive else [])


def test_an_object_that_is_too_large_belongs_to_no_job(
    enqueued: Enqueued, caplog: pytest.LogCaptureFixture
) -> None:
    cache = Cache(objects.POD, job_of_child, objects.project_pod, enqueued, limit=1000)
    cache.put(pod(5))
    assert len(cache.of_job(JOB)) == 1

    large = pod(6)
    large["spec"]["containers"] *= 1000
    cache.put(large)
    assert cache.of_job(JOB) == []
    (stored,) = cache.all()
    assert len(stored.text) < 1000
    assert "Pod vision/a is left out" in caplog.text
    assert enqueued == [(JOB, False)] * 2

    cache.put(pod(7))
    assert len(cache.of_job(JOB)) == 1
