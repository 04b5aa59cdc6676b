"""A job is deleted in each of its phases, for good or to be applied again in the same breath."""

from __future__ import annotations

import pytest

from kind.stories.jobs import CLAIM, Manifest, played
from kind.stories.namespace import OF_JOB, ROLE, StoryNamespace, is_running
from support.processes import wait_until

MADE = {"size": "1Gi"}
HELD = ("index", "pack", "seal", "worker")
PHASES = ("created", *HELD, "starting", "restarting", "suspended", "succeeded", "failed")


@pytest.mark.parametrize("phase", PHASES)
def test_a_deleted_job_leaves_only_claims_to_whoever_follows(
    story: StoryNamespace, phase: str
) -> None:
    story.volume("story-dataset", "standard")
    story.kubectl.apply(job_for(phase))
    wait_for(story, phase)
    first, before = story.job(), claims(story)
    of_first = {pod["metadata"]["uid"] for pod in story.pods()}

    story.kubectl("delete", "imagenetjob", "story", "--wait=false")
    story.kubectl.apply(job_for(phase))

    wait_for(story, phase, of_first)
    second = story.job()
    uid = second["metadata"]["uid"]
    assert uid != first["metadata"]["uid"]
    assert charged(second) == charged(first)
    own = set() if phase in ("created", "suspended") else {uid}
    wait_until(lambda: owners(story) == own, "all that is there is the successor's")

    story.kubectl("delete", "imagenetjob", "story")

    story.wait_for_no_children()
    assert claims(story) == before


def test_a_job_that_is_over_goes_with_the_claim_that_it_is_to_delete(story: StoryNamespace) -> None:
    story.volume("story-dataset", "standard")
    policy = {"retentionPolicy": "Delete", "ttlSecondsAfterFinished": 0}
    story.kubectl.apply(played(volume=MADE, run_policy=policy))
    both = {CLAIM, "story-dataset"}
    story.kubectl.wait_until("persistentvolumeclaims", lambda made: set(made) == both)

    story.kubectl.wait_until("imagenetjobs", lambda jobs: not jobs)
    story.wait_for_no_children()
    story.kubectl.wait_until("persistentvolumeclaims", lambda left: set(left) == {CLAIM})


def job_for(phase: str) -> Manifest:
    """A job that stays in a phase, or at least comes there."""
    if phase in HELD:
        return played(volume=MADE, behaviour={phase: "hold"})
    if phase == "created":
        return played(volume={"claimName": "nobodys"})
    if phase == "suspended":
        return played(volume=MADE, run_policy={"suspend": True})
    if phase == "starting":
        return played(prepared=True, template={"nodeSelector": {"story": "nowhere"}})
    if phase == "failed":
        failing = {"worker": "exit 1"}
        return played(volume=MADE, behaviour=failing, run_policy={"backoffLimit": 0})
    return played(volume=MADE, behaviour={"worker@0": "exit 1"} if phase == "restarting" else {})


def wait_for(story: StoryNamespace, phase: str, others: set[str] | None = None) -> None:
    """Wait until the job is in a phase.

    Args:
        story: The namespace.
        phase: One of PHASES.
        others: UIDs of pods that are not the job's, though they are called as its own are.
    """

    def runs(pods: dict[str, Manifest]) -> bool:
        own = [pod for pod in pods.values() if pod["metadata"]["uid"] not in (others or ())]
        return any(map(is_running, own))

    if phase in HELD:
        story.kubectl.wait_until("pods", runs, selector=f"{OF_JOB}=story,{ROLE}={phase}")
    elif phase in ("created", "starting"):
        story.wait_for_job(lambda status: status.get("phase") == phase.capitalize())
    else:
        story.wait_for_condition(phase.capitalize())


def charged(job: Manifest) -> tuple[int, int]:
    """How often a job has been restarted, for its own faults and for others'."""
    status = job.get("status", {})
    return status.get("restarts", 0), status.get("disruptions", 0)


def claims(story: StoryNamespace) -> set[str]:
    """The names of all claims that are there."""
    return {item["metadata"]["name"] for item in story.kubectl.all("persistentvolumeclaims")}


def owners(story: StoryNamespace) -> set[str]:
    """The UIDs of the jobs that own anything here, directly."""
    return {
        owner["uid"]
        for item in story.child_objects()
        for owner in item["metadata"]["ownerReferences"]
        if owner["kind"] == "ImageNetJob"
    }
