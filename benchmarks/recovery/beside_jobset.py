"""What a deleted pod costs beside JobSet: from the deletion until as many new pods run again.

Both are on one kind cluster, in turn, and the operator is as it is delivered. The pods of a JobSet
sleep, and end at once at SIGTERM. Those of a job train and save; it is its first disruption since
it progressed, which waits for nothing.
"""

import time
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.scaling import pods

from imagenet_operator.reconcile.policies.backoff import NEW_STEPS_SECONDS
from kind import controllers
from kind.airgap.parts import read_versions
from kind.cluster import Cluster
from kind.stories.jobs import IMAGE
from kind.stories.namespace import ATTEMPT, OF_JOB, StoryNamespace, is_running
from kind.stories.release import Release
from support import chart

MEMBERS = 3
"""Two workers of `horovod` and its rendezvous; as many pods has a JobSet."""

EPOCHS = 1000
"""More than a job trains until it is deleted."""

OF_JOBSET = "jobset.sigs.k8s.io/jobset-name"
SLEEP = "import signal, sys; signal.signal(signal.SIGTERM, lambda *_: sys.exit(1)); signal.pause()"


def install(cluster: Cluster) -> None:
    """Install JobSet, and the operator with the chart's own values."""
    values = {
        "image": controllers.image("jobset"),
        "controller": {"podSecurityContext": {"runAsNonRoot": True, "runAsUser": 65532}},
    }
    controllers.install(cluster, "jobset", "jobset-system", values)
    Release(cluster).upgrade(f"--values={chart.FOLDER / 'values.yaml'}")


def compare(story: StoryNamespace, runs: int) -> str:
    """Measure both in turn, and return the table as Markdown."""
    found: dict[str, list[float]] = {"ImageNetJob": [], _jobset(): []}
    for number in range(runs):
        for name, measure in zip(found, (_of_job, _of_jobset), strict=True):
            found[name].append(measure(story, f"beside-{number}"))
    return table(found)


def _jobset() -> str:
    version = read_versions()["controllers"]["jobset"]["version"]
    return f"JobSet {version}"


def table(found: Mapping[str, Sequence[float]]) -> str:
    """Return the seconds of each as Markdown."""
    lines = ["| | median | least | most |", "|---|--:|--:|--:|"]
    lines += [
        f"| {name} | {median(runs):.1f} | {min(runs):.1f} | {max(runs):.1f} |"
        for name, runs in found.items()
    ]
    return "\n".join(lines)


def _of_job(story: StoryNamespace, name: str) -> float:
    manifest = pods.job(name, EPOCHS, threads=1, strategy="horovod:MXNet", workers=2)
    story.kubectl.apply(manifest)
    story.wait_for_job(_has_progressed, name)
    seconds = _recovery(story, f"{name}-r0-worker-1", f"{OF_JOB}={name},{ATTEMPT}")
    story.kubectl.delete("imagenetjobs", name)
    story.wait_for_no_children(name)
    return seconds


def _has_progressed(status: Mapping[str, Any]) -> bool:
    phases = status.get("time", {}).get("phases", {})
    # Then the next attempt starts without a delay.
    return float(phases.get("stepping", 0)) > NEW_STEPS_SECONDS


def _of_jobset(story: StoryNamespace, name: str) -> float:
    selector = f"{OF_JOBSET}={name}"
    story.kubectl.apply(job_set(name))
    found = story.kubectl.wait_until("pods", _all_run, selector=selector)
    seconds = _recovery(story, next(iter(found)), selector)
    story.kubectl("delete", "jobset", name)
    story.kubectl.wait_until("pods", lambda left: not left, selector=selector)
    return seconds


def _all_run(found: Mapping[str, Mapping[str, Any]]) -> bool:
    return sum(is_running(dict(pod)) for pod in found.values()) == MEMBERS


def _recovery(story: StoryNamespace, pod: str, selector: str) -> float:
    former = {item["metadata"]["uid"] for item in story.kubectl.all("pods", selector)}
    began = time.monotonic()
    story.kubectl.delete("pods", pod)
    story.kubectl.wait_until(
        "pods",
        lambda found: _all_run(
            {name: item for name, item in found.items() if item["metadata"]["uid"] not in former}
        ),
        selector=selector,
    )
    return time.monotonic() - began


def job_set(name: str) -> dict[str, Any]:
    """Return a JobSet of as many pods, which it makes anew when one of them fails."""
    container = {"name": "main", "image": IMAGE, "command": ["python", "-c", SLEEP]}
    pod = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    job = {"parallelism": MEMBERS, "completions": MEMBERS, "backoffLimit": 0, "template": pod}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": name},
        "spec": {
            "failurePolicy": {"maxRestarts": 10},
            "replicatedJobs": [{"name": "worker", "replicas": 1, "template": {"spec": job}}],
        },
    }
