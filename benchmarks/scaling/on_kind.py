"""On a kind cluster: an ImageNetJob, and its worker once more as a plain pod, at the same time.

The cluster is made for the run by tests/kind's harness and deleted after it. Where
`$IMAGENET_KIND_CLUSTER` names one, made by `tests/kind/run.py up`, that one is used.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.scaling import jobs, pods
from benchmarks.scaling.bare_program import speed_of
from benchmarks.scaling.speeds import in_pairs, table

from kind import run
from kind.cluster import Cluster, existing
from kind.environment import prepare
from kind.stories.namespace import StoryNamespace
from kind.stories.release import Release
from support import chart

NAME = "imagenetjob-bench-training"
NAMESPACE = "bench-training"
BARE, JOB = "a plain pod by kubectl apply", "an ImageNetJob"
IMAGES = ("operator", "workloads-preparation", "workloads-mxnet")
_ENDED = ("Succeeded", "Failed")
_TIMEOUT_SECONDS = 1800.0


def compare(runs: int, epochs: int) -> None:
    """Measure and print.

    Args:
        runs: of each way.
        epochs: of each run.
    """
    with cluster() as made, namespace(made, NAMESPACE) as found:
        bench = Bench(found, epochs)
        # Makes the dataset, which all others find; plain pods then do what its worker did.
        bench.job()
        speeds = in_pairs(runs, (BARE, JOB), bench.at_once)
    print(table("one pod on kind, with one thread", speeds, BARE, {JOB: 0.98}), flush=True)


class Bench:
    """Trains in one namespace.

    Args:
        story: the namespace, and the folder that its pods share.
        epochs: of each run.
    """

    def __init__(self, story: StoryNamespace, epochs: int) -> None:
        self._story = story
        self._epochs = epochs
        self._runs = 0
        self._worker: pods.Manifest = {}

    def at_once(self) -> tuple[float, float]:
        """The images per second of a plain pod, and of a job beside it."""
        bare, job = self._start_bare(), self._start_job()
        return self._bare_speed(bare), self._speed_of_job(job)

    def job(self) -> float:
        """The images per second of a job; plain pods do what its worker did."""
        name = self._start_job()
        speed = self._speed_of_job(name)
        self._worker = self._story.kubectl.get("pods", f"{name}-r0-worker-0")
        return speed

    def _start_job(self) -> str:
        name = self._next("job")
        self._story.kubectl.apply(pods.job(name, self._epochs, threads=1))
        return name

    def _speed_of_job(self, name: str) -> float:
        status = self._story.wait_for_condition("Succeeded", name, _TIMEOUT_SECONDS)
        if status["training"]["attempt"] != 0:
            sys.exit(
                f"{name} was restarted: the figures of its last attempt do not cover all epochs"
            )
        return speed_of(self._story.output(name))

    def _start_bare(self) -> str:
        name = self._next(pods.BARE_POD)
        self._story.kubectl.apply(pods.bare_pod(self._worker, name))
        return name

    def _bare_speed(self, name: str) -> float:
        kubectl = self._story.kubectl
        seen = kubectl.wait_until(
            "pods", lambda found: found[name]["status"].get("phase") in _ENDED, _TIMEOUT_SECONDS
        )
        if seen[name]["status"]["phase"] == "Failed":
            sys.exit(f"{name} failed:\n{kubectl('logs', name)}")
        return speed_of(self._story.data / pods.folder(name))

    def _next(self, kind: str) -> str:
        self._runs += 1
        return f"bench-{kind}-{self._runs}"


@contextmanager
def cluster() -> Iterator[Cluster]:
    """Give a cluster with the operator on it; one of the run's own is gone at the end."""
    if os.environ.get("IMAGENET_KIND_CLUSTER"):
        yield existing()
        return
    environment = prepare()
    build = ["make", *(f"image-{name}" for name in IMAGES)]
    options = f"DOCKER_BUILD_OPTIONS={environment.build_options}"
    subprocess.run([*build, options], cwd=run.REPOSITORY, check=True, stdout=sys.stderr)
    made = Cluster(NAME, environment)
    try:
        made.create()
        made.load([f"imagenet-{name}:{run.version()}" for name in IMAGES])
        # As it is delivered: the stories' values let the operator ask workers every second.
        Release(made).upgrade(f"--values={chart.FOLDER / 'values.yaml'}")
        yield made
    finally:
        made.delete()


@contextmanager
def namespace(made: Cluster, name: str) -> Iterator[StoryNamespace]:
    """Give a namespace with a claim that all its pods share; a failure prints its content."""
    found = StoryNamespace(made.kubectl.within(name), made.shared / name)
    _clear(found)
    found.kubectl("create", "namespace", name)
    found.folder.mkdir()
    found.claim(jobs.CLAIM)
    try:
        yield found
    except BaseException:
        print(found.kubectl.account(), file=sys.stderr)
        raise
    finally:
        _clear(found)


def _clear(found: StoryNamespace) -> None:
    """Remove what this run, or one that was killed, has left."""
    # A namespace ends after its pods, so no pod writes to the folder any more.
    found.kubectl("delete", "namespace", found.name, "--ignore-not-found", "--timeout=300s")
    found.kubectl("delete", "persistentvolumes", f"--selector={found.volumes}")
    shutil.rmtree(found.folder, ignore_errors=True)
