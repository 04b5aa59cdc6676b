"""A job is deleted in each of its phases, for good or to be applied again in the same breath."""

from __future__ import annotations

import pytest

from kind.stories.jobs import CLAIM, Manifest, played
from kind.stories.place import CHILDREN, OF_JOB, Place

MADE = {"size": "1Gi"}
HELD = ("index", "pack", "seal", "worker")
PHASES = (*HELD, "starting", "restarting", "suspended", "succeeded", "failed")


@pytest.mark.parametrize("phase", PHASES)
def test_a_deleted_job_leaves_only_its_claims(place: Place, phase: str) -> None:
    place.volume("story-dataset", "standard")
    place.kubectl.apply(job_for(phase))
    wait_for(place, phase)
    before = claims(place)

    place.kubectl("delete", "imagenetjob", "story")

    place.wait_for_no_children()
    assert claims(place) == before


@pytest.mark.parametrize("phase", PHASES)
def test_its_successor_has_nothing_of_it_but_claims(place: Place, phase: str) -> None:
    place.volume("story-dataset", "standard")
    place.kubectl.apply(job_for(phase))
    wait_for(place, phase)
    first = place.job()["metadata"]["uid"]

    place.kubectl("delete", "imagenetjob", "story", "--wait=false")
    place.kubectl.apply(played(volume=MADE))

    status = place.wait_for_condition("Succeeded")
    second = place.job()["metadata"]["uid"]
    assert second != first
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert owners(place) == {second}

    place.kubectl("delete", "imagenetjob", "story")
    place.wait_for_no_children()
    assert claims(place) == {CLAIM, "story-dataset"}


def job_for(phase: str) -> Manifest:
    """A job that stays in a phase, or at least comes there."""
    if phase in HELD:
        return played(volume=MADE, behaviour={phase: "hold"})
    if phase == "suspended":
        return played(volume=MADE, run_policy={"suspend": True})
    if phase == "starting":
        return played(prepared=True, template={"nodeSelector": {"story": "nowhere"}})
    if phase == "failed":
        failing = {"worker": "exit 1"}
        return played(volume=MADE, behaviour=failing, run_policy={"backoffLimit": 0})
    return played(volume=MADE, behaviour={"worker@0": "exit 1"} if phase == "restarting" else {})


def wait_for(place: Place, phase: str) -> None:
    if phase in HELD:
        place.wait_for_running_pods(phase, 1)
    elif phase == "starting":
        place.wait_for_job(lambda status: status.get("phase") == "Starting")
    else:
        place.wait_for_condition(phase.capitalize())


def claims(place: Place) -> set[str]:
    """The names of all claims that are there."""
    return {item["metadata"]["name"] for item in place.kubectl.all("persistentvolumeclaims")}


def owners(place: Place) -> set[str]:
    """The UIDs of the jobs that own anything here, directly."""
    listed = place.kubectl.all(",".join(CHILDREN), f"{OF_JOB}=story")
    return {
        owner["uid"]
        for item in listed
        for owner in item["metadata"]["ownerReferences"]
        if owner["kind"] == "ImageNetJob"
    }
