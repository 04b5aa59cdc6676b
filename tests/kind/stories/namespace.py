"""The namespace of a story, and a folder that its pods share.

Its methods name what a story waits for. Every wait has a deadline, and fails as soon as the job
fails.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kind.cluster import SHARED, Cluster
from kind.kubectl import SECONDS, Kubectl, KubectlError, Resource
from kind.stories.jobs import ARCHIVE, CLAIM, programs
from support.processes import wait_until

Manifest = dict[str, Any]

OF_JOB = "training.imagenet.dev/job-name"
ROLE = "training.imagenet.dev/job-role"
ATTEMPT = "training.imagenet.dev/attempt"

EXAMPLES = Path(__file__).resolve().parents[3] / "examples"

# All that a job can make, beside the claims that outlive it.
CHILDREN: tuple[Resource, ...] = (
    "pods",
    "jobs",
    "services",
    "networkpolicies",
    "poddisruptionbudgets",
)


@dataclass(frozen=True)
class StoryNamespace:
    """One story's namespace.

    Attributes:
        kubectl: For the namespace.
        folder: What its claims hold, each in a folder of its name, as it is called on this machine.
    """

    kubectl: Kubectl
    folder: Path

    @property
    def name(self) -> str:
        """The namespace."""
        return self.kubectl.namespace

    @property
    def data(self) -> Path:
        """What the claim of the story's jobs holds."""
        return self.folder / CLAIM

    @property
    def volumes(self) -> str:
        """The label of its volumes, which belong to no namespace."""
        return f"story={self.name}"

    def make_folder(self, path: str) -> None:
        """Make a folder of a claim, or in one, to which pods can write."""
        (self.folder / path).mkdir()
        (self.folder / path).chmod(0o777)

    def volume(self, claim: str, storage_class: str = "") -> None:
        """Make a volume that all nodes share, for a claim of this name."""
        self.make_folder(claim)
        self.kubectl.create(
            "persistentvolumes",
            {
                "metadata": {"name": f"{self.name}-{claim}", "labels": {"story": self.name}},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "capacity": {"storage": "1Gi"},
                    "storageClassName": storage_class,
                    "persistentVolumeReclaimPolicy": "Retain",
                    "claimRef": {"name": claim, "namespace": self.name},
                    "hostPath": {"path": f"{SHARED}/{self.folder.name}/{claim}"},
                },
            },
        )

    def claim(self, claim: str) -> None:
        """Make a claim, and its volume."""
        self.volume(claim)
        self.kubectl.create(
            "persistentvolumeclaims",
            {
                "metadata": {"name": claim},
                "spec": {
                    "accessModes": ["ReadWriteMany"],
                    "storageClassName": "",
                    "volumeName": f"{self.name}-{claim}",
                    "resources": {"requests": {"storage": "1Gi"}},
                },
            },
        )

    def set_quota(self, name: str, hard: str) -> None:
        """Make a quota, and wait until the API server enforces it."""
        self.kubectl("create", "quota", name, f"--hard={hard}")

        def is_enforced(quotas: dict[str, Manifest]) -> bool:
            status = quotas[name].get("status", {}) if name in quotas else {}
            return bool(status.get("hard")) and bool(status.get("used"))

        self.kubectl.wait_until("resourcequotas", is_enforced)

    def make_archive(self) -> None:
        """Put the example's archive of raw images on the claim of the story's jobs."""
        make_digits(self.data / ARCHIVE)

    def job(self, name: str = "story") -> Manifest:
        """Return a job as the API server has it."""
        return self.kubectl.get("imagenetjobs", name)

    def change(self, spec: Manifest, name: str = "story") -> None:
        """Change fields of a job's spec."""
        self.kubectl.patch("imagenetjobs", name, {"spec": spec})

    def wait_for_job(
        self,
        satisfied: Callable[[Manifest], bool],
        name: str = "story",
        seconds: float = SECONDS,
        may_fail: bool = False,
    ) -> Manifest:
        """Wait until the status of a job is as wanted; return that status."""

        def reached(jobs: dict[str, Manifest]) -> bool:
            status = jobs[name].get("status", {}) if name in jobs else {}
            failed = condition(status, "Failed")
            assert may_fail or failed is None, f"{name} failed: {failed}"
            return bool(status) and satisfied(status)

        found = self.kubectl.wait_until("imagenetjobs", reached, seconds)
        status: Manifest = found[name]["status"]
        return status

    def wait_for_condition(
        self, kind: str, name: str = "story", seconds: float = SECONDS, reason: str | None = None
    ) -> Manifest:
        """Wait until a condition of a job is true, for a reason; return the job's status."""

        def holds(status: Manifest) -> bool:
            found = condition(status, kind)
            return found is not None and reason in (None, found["reason"])

        return self.wait_for_job(holds, name, seconds, may_fail=kind == "Failed")

    def wait_for_attempt(
        self, number: int, name: str = "story", seconds: float = SECONDS
    ) -> Manifest:
        """Wait until all members of an attempt, or of a later one, run; return the job's status."""

        def runs(status: Manifest) -> bool:
            training = status.get("training") or {}
            return training.get("attempt", -1) >= number and "runningTime" in training

        return self.wait_for_job(runs, name, seconds)

    def pods(self, *, job: str = "story", role: str | None = None) -> list[Manifest]:
        """Return the pods of a job, or of one role in it."""
        return self.kubectl.all("pods", _selector(job, role))

    def wait_for_running_pods(self, role: str, count: int, job: str = "story") -> list[str]:
        """Wait until the programs of so many pods of a role run; return the pods' names."""

        def running(pods: dict[str, Manifest]) -> list[str]:
            return [name for name, pod in pods.items() if is_running(pod)]

        found = self.kubectl.wait_until(
            "pods", lambda pods: len(running(pods)) >= count, selector=_selector(job, role)
        )
        return running(found)

    def wait_for_phase(self, pod: str, phase: str) -> None:
        """Wait until a pod is there, and in a phase."""

        def reached(pods: dict[str, Manifest]) -> bool:
            return pod in pods and pods[pod]["status"]["phase"] == phase

        self.kubectl.wait_until("pods", reached)

    def kill_pod(self, name: str) -> None:
        """Delete a pod by force, and wait until it is gone."""
        killed = self.kubectl.get("pods", name)["metadata"]["uid"]
        self.kubectl.delete("pods", name, grace_seconds=0)

        def gone(pods: dict[str, Manifest]) -> bool:
            return all(pod["metadata"]["uid"] != killed for pod in pods.values())

        self.kubectl.wait_until("pods", gone)

    def kill_program(self, pod: str, number: str = "KILL") -> None:
        """Send a signal to the program that trains in a pod, and not to the init before it."""
        self._signal(pod, f"kill -{number} $(cat /proc/1/task/1/children)")

    def end_stand_in(self, pod: str) -> None:
        """Let a stand-in end with 143."""
        self._signal(pod, "kill -TERM 1")

    def _signal(self, pod: str, script: str) -> None:
        """Run a script that may end the container, and with it the shell that runs the script."""
        try:
            self.run_in(pod, script)
        except KubectlError as error:
            if "exit code 137" not in str(error):
                raise

    def run_in(self, pod: str, script: str) -> str:
        """Run a shell script in the container of a pod's program."""
        return self.kubectl("exec", pod, "--container=main", "--", "sh", "-c", script)

    def release(self, what: str = "", folder: str = "") -> None:
        """Let programs that are held go on: all, those of a role, or those before a file.

        Args:
            what: The role, or the file's name.
            folder: Of the claim, by which they are held.
        """
        (self.data / folder / (f"release-{what}" if what else "release")).touch()

    def wait_until_held(self, role: str, file: str = "", attempt: int = 0) -> str:
        """Wait until a program of a role is held before a file; return its pod's name.

        Args:
            role: The program's.
            file: Part of the file's name.
            attempt: Of a member, whose former attempts may have been held too.
        """
        held = self.data / f"held-{role}"
        former = tuple(f"-r{number}-{role}-" for number in range(attempt))

        def holds() -> str:
            pod, _, before = (held.read_text() if held.exists() else "").partition(" ")
            is_former = any(part in pod for part in former)
            return pod if before and file in before and not is_former else ""

        found = wait_until(holds, f"a {role} is held before {file or 'its file'}", SECONDS)
        # Kubernetes may not have heard of it yet.
        self.wait_for_phase(found, "Running")
        return found

    def result(self, status: Manifest, job: str = "story") -> Manifest:
        """Return what the attempt that succeeded has left on the volume."""
        folder = self.output(job) / "attempts" / f"r{status['training']['attempt']}"
        written: Manifest = json.loads((folder / "result.json").read_text())
        for file in written["model"].values():
            assert (folder / file).stat().st_size > 0
        return written

    def output(self, job: str = "story") -> Path:
        """The folder that a job of this name writes to; only one such job may have been there."""
        (folder,) = self.data.glob(f"jobs/{job}-*")
        return folder

    def workers_by_ledger(self) -> list[int]:
        """The workers of each attempt by the ledger, which must have each image once an epoch."""
        program = Path(sys.executable).parent / "imagenet-ledger"
        (dataset,) = self.data.glob("datasets/*/")
        command = [str(program), str(self.output()), f"--dataset={dataset}", "--output=json"]
        checked = subprocess.run(command, check=False, capture_output=True, text=True)
        assert checked.returncode == 0, checked.stdout + checked.stderr
        return [attempt["workers"] for attempt in json.loads(checked.stdout)["attempts"]]

    def children(self, job: str = "story") -> set[str]:
        """Return all that belongs to a job of this name, as KIND/NAME, but for claims."""
        return {f"{item['kind']}/{item['metadata']['name']}" for item in self.child_objects(job)}

    def child_objects(self, job: str = "story") -> list[Manifest]:
        """Return all that belongs to a job of this name, but for claims."""
        selector = f"{OF_JOB}={job}"
        return [item for kind in CHILDREN for item in self.kubectl.all(kind, selector)]

    def wait_until_gone(self, selector: str) -> dict[str, Manifest]:
        """Wait until no pod with these labels is left; return the last that was seen of each."""
        last_seen: dict[str, Manifest] = {}

        def gone(pods: dict[str, Manifest]) -> bool:
            last_seen.update(pods)
            return not pods

        self.kubectl.wait_until("pods", gone, selector=selector)
        return last_seen

    def wait_for_no_children(self, job: str = "story", seconds: float = SECONDS) -> None:
        """Wait until nothing of a job is left but claims."""
        for kind in CHILDREN:
            self.kubectl.wait_until(kind, lambda left: not left, seconds, f"{OF_JOB}={job}")


def prepare_story(cluster: Cluster, kubectl: Kubectl) -> StoryNamespace:
    """Give a namespace the strictest Pod Security, a shared claim, and the stand-ins."""
    story = StoryNamespace(kubectl, cluster.shared / kubectl.namespace)
    # Leftovers of a run that was killed.
    kubectl.delete_all("persistentvolumes", story.volumes)
    kubectl.wait_until("persistentvolumes", lambda left: not left, selector=story.volumes)
    shutil.rmtree(story.folder, ignore_errors=True)
    story.folder.mkdir()
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    kubectl.patch("namespaces", story.name, {"metadata": {"labels": restricted}})
    story.claim(CLAIM)
    kubectl.create("configmaps", programs())
    return story


def make_digits(archive: Path) -> None:
    """Make the archive of the examples, as they say."""
    subprocess.run(
        [sys.executable, "-m", "imagenet_workloads.commands.digits", archive], check=True
    )


def condition(status: Manifest, kind: str) -> Manifest | None:
    """Return a condition if it is true."""
    for item in status.get("conditions", ()):
        if item["type"] == kind and item["status"] == "True":
            return dict(item)
    return None


def is_running(pod: Manifest) -> bool:
    """Whether the program of a pod runs, and the pod is not being deleted."""
    statuses = pod["status"].get("containerStatuses") or [{}]
    return "running" in statuses[0].get("state", {}) and "deletionTimestamp" not in pod["metadata"]


def terminated(pod: Manifest) -> Manifest:
    """Return how the program of a pod that has ended did so."""
    ended: Manifest = pod["status"]["containerStatuses"][0]["state"]["terminated"]
    return ended


def is_ready(pod: Manifest) -> bool:
    """Whether a pod is ready."""
    conditions = pod["status"].get("conditions", ())
    return any(item["type"] == "Ready" and item["status"] == "True" for item in conditions)


def mounts(pod: Manifest, claim: str) -> bool:
    """Whether a pod mounts a claim."""
    volumes = pod["spec"].get("volumes", ())
    return any(item.get("persistentVolumeClaim", {}).get("claimName") == claim for item in volumes)


def member_nodes(status: Manifest) -> dict[str, str]:
    """Return on which node each member of the attempt was seen to run, by role and index.

    A member that waits for no other may end a job before the kubelet reports the others.
    """
    return {
        member["name"].split("-", 2)[2]: member["node"]
        for member in status["training"]["members"]
        if "node" in member
    }


def _selector(job: str, role: str | None) -> str:
    return f"{OF_JOB}={job}" + (f",{ROLE}={role}" if role else "")
