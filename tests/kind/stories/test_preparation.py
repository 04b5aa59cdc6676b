"""Preprocessing that is killed at each step, and two jobs that need the same dataset."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from imagenet_workloads.dataset import read_dataset
from kind.cluster import Cluster
from kind.stories.jobs import Manifest, from_archive, played, trained
from kind.stories.namespace import StoryNamespace

# The last file of each program: its work is done then, but not yet visible.
LAST_FILES = {"index": "/datasets/", "pack": r"\.rec$", "seal": r"/dataset\.json$"}


def test_a_job_that_comes_before_its_claim_starts_with_it(story: StoryNamespace) -> None:
    story.kubectl.apply(played(volume={"claimName": "late"}))
    story.wait_for_job(is_told_what_is_missing)
    assert story.children() == set()

    story.claim("late")

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)


def is_told_what_is_missing(status: Manifest) -> bool:
    """Whether the status says which claim there is not."""
    said = {item["type"]: item for item in status.get("conditions", ())}.get("Created", {})
    return said.get("reason") == "ClaimNotFound" and "PersistentVolumeClaim late" in said["message"]


def test_pods_of_each_step_are_killed(story: StoryNamespace) -> None:
    steps = {"index": 1, "pack": 2, "seal": 1}
    story.kubectl.apply(played(behaviour=dict.fromkeys(steps, "hold")))
    for role, count in steps.items():
        (killed, *_) = story.wait_for_running_pods(role, count)
        story.kill_pod(killed)
        assert killed not in story.wait_for_running_pods(role, count)
        story.release(role)

    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["dataset"]["sealed"]


def test_programs_of_each_step_are_killed(story: StoryNamespace, cluster: Cluster) -> None:
    story.make_archive()
    story.kubectl.apply(prepared(hold_at=LAST_FILES))
    for role in LAST_FILES:
        pod = story.wait_until_held(role)
        cluster.kill_program(story.kubectl.get("pods", pod))
        story.wait_for_phase(pod, "Failed")
        story.release(role)

    status = story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    check_dataset(story, status)


def test_a_job_waits_for_the_one_that_makes_its_dataset(story: StoryNamespace) -> None:
    story.make_archive()
    story.kubectl.apply(prepared("first", hold_at={"pack": LAST_FILES["pack"]}))
    assert story.wait_until_held("pack").startswith("first-pack-")

    story.kubectl.apply(prepared("second"))
    story.wait_for_job(waits_for_first, "second")
    story.release("pack")

    first, second = (story.wait_for_condition("Succeeded", name) for name in ("first", "second"))
    assert first["dataset"]["key"] == second["dataset"]["key"]
    check_dataset(story, first)
    jobs = {job["metadata"]["name"] for job in story.kubectl.all("jobs")}
    assert {name for name in jobs if name.startswith("second-")} == {"second-index", "second-seal"}


def waits_for_first(status: Manifest) -> bool:
    """Whether the status says that the job `first` prepares the dataset."""
    said = {item["type"]: item for item in status.get("conditions", ())}.get("DatasetReady", {})
    return said.get("reason") == "WaitingForJob" and "ImageNetJob first " in said["message"]


def prepared(name: str = "story", hold_at: Mapping[str, str] | None = None) -> Manifest:
    """A job that makes a dataset of the archive, and trains on it for a moment."""
    return trained(
        name,
        epochs=1,
        strategy={"single": {"kvStore": "local"}},
        workers={"replicas": 1},
        dataset=from_archive(hold_at=hold_at),
    )


def check_dataset(story: StoryNamespace, status: Manifest) -> None:
    """There is one dataset, with every shard that it names as it was written, and no other."""
    (folder,) = (story.data / "datasets").iterdir()
    assert folder.name == status["dataset"]["key"]
    dataset = read_dataset(folder)
    shards = (*dataset.train.shards, *dataset.validation.shards)
    for shard in shards:
        assert hashlib.sha256((folder / shard.record).read_bytes()).hexdigest() == shard.sha256
    named = {name for shard in shards for name in (shard.record, shard.index)}
    assert {path.name for path in folder.iterdir() if path.suffix in (".rec", ".idx")} == named
