"""Jobs in queues of Kueue itself: they wait with its words, and go on after what it does to them.

`make test-kueue` has Kueue on its cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import yaml

from imagenet_spec.resource import queue as names
from kind import kueue
from kind.cluster import Cluster
from kind.stories.jobs import AT_CHECKPOINT, CLAIM, Manifest, from_archive, played, trained
from kind.stories.namespace import StoryNamespace
from kind.stories.test_strategies import CASES, Case

pytestmark = pytest.mark.kueue

RED, BLUE = "red", "blue"
CPU = "400m"
"""What each worker asks for. The quota is enough for two of them."""

HOLD_AND_DRAIN = {"spec": {"stopPolicy": "HoldAndDrain"}}
GO_ON = {"spec": {"stopPolicy": "None"}}


@dataclass(frozen=True)
class Teams:
    """Two teams with a quota for both, in the namespace of a story.

    Attributes:
        story: The namespace; each team has a queue there.
    """

    story: StoryNamespace

    @property
    def quota(self) -> str:
        """The name of the ClusterQueue, and of the flavor."""
        return self.story.name

    def manifests(self) -> list[Manifest]:
        """What an administrator applies."""
        quotas = [
            {"name": "cpu", "nominalQuota": "1"},
            {"name": "memory", "nominalQuota": "100Gi"},
        ]
        flavors = [{"name": self.quota, "resources": quotas}]
        shared = {
            "namespaceSelector": {},
            "preemption": {"withinClusterQueue": "LowerPriority"},
            "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
        }
        return [
            _object("ResourceFlavor", self.quota),
            _object("ClusterQueue", self.quota, spec=shared),
            _object("WorkloadPriorityClass", f"{self.quota}-high", value=1000),
            *(
                _object("LocalQueue", team, spec={"clusterQueue": self.quota})
                for team in (RED, BLUE)
            ),
        ]

    def apply(
        self, job: Manifest, team: str = RED, *, is_urgent: bool = False, cpu: str = CPU
    ) -> None:
        """Apply a job into the queue of a team; each of its workers asks for CPU."""
        job["metadata"]["labels"] = {names.NAME: team}
        if is_urgent:
            job["metadata"]["labels"][names.PRIORITY_CLASS] = f"{self.quota}-high"
        template = job["spec"]["training"]["workers"]["template"]["spec"]
        (container,) = template.setdefault("containers", [{"name": "main"}])
        container["resources"] = {"requests": {"cpu": cpu}}
        self.story.kubectl.apply(job)

    def stop(self, change: Manifest) -> None:
        """Hold and drain the quota, or let it go on."""
        self.story.kubectl.patch("clusterqueues", self.quota, change)

    def wait_until_queued(self, job: str, *words: str) -> Manifest:
        """Wait until a job is queued with these words; return its status."""

        def says(status: Manifest) -> bool:
            said = " ".join(item["message"] for item in status.get("conditions", ()))
            return status.get("phase") == "Queued" and all(word in said for word in words)

        return self.story.wait_for_job(says, job)

    def groups(self, job: str = "story") -> set[str]:
        """Return the workloads of the attempts of a job."""
        found = {item["metadata"]["name"] for item in self.story.kubectl.all("workloads")}
        return {name for name in found if name.startswith(f"{job}-r")}


def _object(kind: str, name: str, **fields: object) -> Manifest:
    return {"apiVersion": kueue.API, "kind": kind, "metadata": {"name": name}, **fields}


@pytest.fixture
def teams(digits_story: StoryNamespace) -> Iterator[Teams]:
    """Two teams, digits to train on, and room beside them for what a preparation makes."""
    teams = Teams(digits_story)
    (digits_story.data / "datasets").chmod(0o777)
    digits_story.kubectl.apply(*teams.manifests())
    yield teams
    digits_story.kubectl.delete_all("imagenetjobs")
    digits_story.kubectl.wait_until("workloads", lambda left: not left)
    for kind in ("localqueue/red", "localqueue/blue", f"clusterqueue/{teams.quota}"):
        digits_story.kubectl("delete", kind, "--wait=false")
    digits_story.kubectl("delete", f"resourceflavor/{teams.quota}", "--wait=false")
    digits_story.kubectl("delete", f"workloadpriorityclass/{teams.quota}-high", "--wait=false")


def held(name: str = "story", **more: Any) -> Manifest:
    """A job whose first attempt is held before its second checkpoint; it has one of epoch 1."""
    return trained(
        name,
        epochs=3,
        hold_at={"worker@0": AT_CHECKPOINT.format(2)},
        # A program that is held ignores SIGTERM.
        template={"terminationGracePeriodSeconds": 1},
        **more,
    )


ONE_WORKER: dict[str, Any] = {"strategy": {"single": {}}, "workers": {"replicas": 1}}


def test_a_job_waits_for_the_quota_of_another_team(teams: Teams, cluster: Cluster) -> None:
    story = teams.story
    teams.apply(held("first"))
    story.wait_until_held("worker")

    teams.apply(trained("second", epochs=1), BLUE)

    waits = teams.wait_until_queued("second", "waiting in queue blue", "insufficient unused quota")
    assert "600m more needed" in str(waits["conditions"])
    assert len(story.pods(job="second")) == 4
    kueue.kill(cluster)
    story.release("worker")
    story.wait_for_condition("Succeeded", "first")
    status = story.wait_for_condition("Succeeded", "second")
    assert teams.groups("second") == {"second-r0"}
    assert status["time"]["phases"]["queued"] > 0
    assert (status["restarts"], status["disruptions"]) == (0, 0)


def test_the_next_attempt_is_a_group_of_its_own(teams: Teams) -> None:
    story = teams.story
    teams.apply(held())
    story.wait_until_held("worker")
    assert teams.groups() == {"story-r0"}

    story.kill_pod("story-r0-worker-1")

    status = story.wait_for_condition("Succeeded")
    # That of the former attempt goes with its pods.
    assert "story-r1" in teams.groups()
    assert (status["restarts"], status["disruptions"]) == (0, 1)
    assert "/attempts/r0/checkpoints/epoch-0001" in story.result(status)["resumedFrom"]


def test_a_preempted_job_resumes_with_the_same_bytes(teams: Teams, cluster: Cluster) -> None:
    story = teams.story
    teams.apply(held(**ONE_WORKER), cpu="800m")
    story.wait_until_held("worker")

    teams.apply(trained("urgent", epochs=1, **ONE_WORKER), BLUE, is_urgent=True, cpu="800m")
    kueue.kill(cluster)

    story.wait_for_condition("Succeeded", "urgent")
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert "/attempts/r0/checkpoints/epoch-0001" in story.result(status)["resumedFrom"]
    events = story.kubectl.all("events")
    (said,) = {item["message"] for item in events if item["reason"] == "EvictedByKueue"}
    assert "evicted by Kueue: Preempted to accommodate a workload" in said

    story.kubectl.apply(trained("alone", epochs=3, **ONE_WORKER))
    alone = story.wait_for_condition("Succeeded", "alone")
    assert model(story, status) == model(story, alone, "alone")


def model(story: StoryNamespace, status: Manifest, job: str = "story") -> bytes:
    """Return the weights that a job has left."""
    written = story.result(status, job)
    folder = story.output(job) / "attempts" / f"r{status['training']['attempt']}"
    weights: str = written["model"]["params"]
    return (folder / weights).read_bytes()


def test_a_queue_is_drained_and_goes_on(teams: Teams, cluster: Cluster) -> None:
    story = teams.story
    teams.apply(held())
    story.wait_until_held("worker")

    teams.stop(HOLD_AND_DRAIN)

    teams.wait_until_queued("story", "waiting in queue red", "inactive")
    kueue.kill(cluster)
    teams.stop(GO_ON)
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert "/attempts/r0/checkpoints/epoch-0001" in story.result(status)["resumedFrom"]


def test_a_job_that_waits_leaves_nothing_when_it_is_deleted(teams: Teams) -> None:
    story = teams.story
    teams.stop(HOLD_AND_DRAIN)
    story.make_archive()
    teams.apply(trained("training"))
    own = {"volume": {"size": "1Gi", "accessModes": ["ReadWriteOnce"]}}
    kept = {"retentionPolicy": "Delete"}
    teams.apply(trained("preparation", dataset={**from_archive(), **own}, run_policy=kept))
    teams.wait_until_queued("training", "waiting in queue red")
    teams.wait_until_queued("preparation", "Kueue holds the index Job", "inactive")

    for job in ("training", "preparation"):
        story.kubectl.delete("imagenetjobs", job)

    for job in ("training", "preparation"):
        story.wait_for_no_children(job)
    story.kubectl.wait_until("workloads", lambda left: not left)
    story.kubectl.wait_until("persistentvolumeclaims", lambda left: left.keys() == {CLAIM})


def test_a_job_that_is_suspended_in_a_queue_waits_for_its_user(teams: Teams) -> None:
    story = teams.story
    teams.apply(played(behaviour={"pack": "hold"}))
    story.wait_for_running_pods("pack", 2)

    story.change({"runPolicy": {"suspend": True}})

    story.wait_for_condition("Suspended")
    story.kubectl.wait_until("workloads", lambda left: not any("pack" in name for name in left))
    story.release()
    story.change({"runPolicy": {"suspend": False}})
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)


def test_a_job_goes_on_when_kueue_is_back(teams: Teams, cluster: Cluster) -> None:
    story = teams.story
    teams.apply(held())
    story.wait_until_held("worker")
    kueue.scale(cluster, 0)
    try:
        # No pod of the next attempt can be created, and Kueue's finalizer keeps this one.
        story.kubectl.delete("pods", "story-r0-worker-1", grace_seconds=0)

        def says(status: Manifest) -> bool:
            return any(item["reason"] == "WebhookFailed" for item in status["conditions"])

        story.wait_for_job(says)
    finally:
        kueue.scale(cluster, 1)
    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 1)


def test_a_job_without_a_queue_waits_for_a_label_where_kueue_manages_all(
    teams: Teams, cluster: Cluster
) -> None:
    story = teams.story
    story.make_archive()
    kueue.manage_all(cluster, True)
    try:
        story.kubectl.apply(trained(epochs=1, dataset=from_archive()))
        story.kubectl.apply(trained("prepared", epochs=1))
        teams.wait_until_queued("story", "holds the index Job, which names no queue")
        teams.wait_until_queued("prepared", "Kueue holds the attempt, which names no queue")
        (index,) = story.kubectl.all("jobs")
        # Suspended by Kueue once; nobody resumes it.
        assert index["metadata"]["generation"] <= 2

        for job in ("story", "prepared"):
            story.change({"runPolicy": {"suspend": True}}, job)
            story.kubectl.patch("imagenetjobs", job, {"metadata": {"labels": {names.NAME: RED}}})
            story.wait_for_condition("Suspended", job)
            story.change({"runPolicy": {"suspend": False}}, job)
            story.wait_for_condition("Succeeded", job)
    finally:
        kueue.manage_all(cluster, False)


def test_the_manifests_of_the_page_are_valid(teams: Teams) -> None:
    blocks = re.findall(r"^```yaml\n(.*?)^```$", kueue.PAGE.read_text(), re.DOTALL | re.MULTILINE)
    (page,) = (text for text in blocks if "kind: ClusterQueue" in text)
    manifests = list(yaml.safe_load_all(page))
    for manifest in manifests:
        if "namespace" in manifest["metadata"]:
            manifest["metadata"]["namespace"] = teams.story.name
    given = yaml.safe_dump_all(manifests)
    created = teams.story.kubectl("apply", "--dry-run=server", "-o=name", "-f=-", given=given)
    assert len(created.splitlines()) == len(manifests) == 6


def test_a_queue_that_does_not_exist_is_named(teams: Teams) -> None:
    teams.apply(trained(), "purple")

    teams.wait_until_queued("story", "waiting in queue purple", "LocalQueue purple doesn't exist")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_each_strategy_trains_in_a_queue(teams: Teams, case: Case) -> None:
    story = teams.story
    story.make_archive()
    job = trained(
        epochs=1,
        strategy=case.strategy,
        workers={"replicas": case.workers},
        dataset=from_archive(format=case.format),
        training={"framework": case.framework},
    )
    teams.apply(job)

    status = story.wait_for_condition("Succeeded")
    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert teams.groups() == {"story-r0"}
    roles = ("index", "pack", "seal")
    workloads = [item["metadata"]["name"] for item in story.kubectl.all("workloads")]
    assert all(any(f"job-story-{role}" in name for name in workloads) for role in roles)
