"""Run the stories on a real cluster, from nothing to nothing: what `make test-kind` starts.

    python tests/kind/run.py test              # all of it; what follows -- goes to pytest
    python tests/kind/run.py up                # a cluster to develop on, with images and chart
    python tests/kind/run.py load              # build and load the images again
    python tests/kind/run.py chaos             # a cluster of four nodes, faults, two tables
    python tests/kind/run.py kueue             # the stories of queues, on a cluster with Kueue
    python tests/kind/run.py down

After `up`, `pytest tests/kind` runs against that cluster. `$IMAGENET_KIND_CLUSTER` names another
one than the default, so that several can exist side by side.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

# Also a program to be started by path.
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kind import kueue
from kind.airgap import build
from kind.chaos import report
from kind.chaos import run as chaos
from kind.chaos.run import Plan
from kind.cluster import Cluster, cluster_name, existing
from kind.conftest import OPERATOR
from kind.environment import Environment, prepare
from kind.prometheus.server import IMAGE as PROMETHEUS
from kind.seaweedfs.server import IMAGE as SEAWEEDFS
from kind.stories.deployment import Operator

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[1]
# Those for GPUs are left out: they cannot run here, and have several gigabytes.
IMAGES = ("operator", "workloads-preparation", "workloads-mxnet", "workloads-tensorflow")
PYTORCH = "imagenetjob.test/workloads-pytorch:bookworm"
R = "imagenetjob.test/workloads-r:bookworm"
# Images of the project whose stage before the programs is that of an image of the stories, too.
EXTENDED = ("workloads-preparation", "workloads-tensorflow")
# Of programs that stories need: the folder of the Dockerfile, and the context of its build. Those
# of PyTorch and R are built on EXTENDED.
OF_STORIES = {
    PROMETHEUS: (HERE / "prometheus", HERE / "prometheus"),
    SEAWEEDFS: (HERE / "seaweedfs", REPOSITORY / "constraints"),
    PYTORCH: (HERE / "pytorch", HERE / "pytorch"),
    R: (HERE / "r", REPOSITORY / "examples" / "r"),
}
# While one waits for packages, another works; what each has to say comes in one piece.
TWO_AT_A_TIME = ("--jobs=2", "--output-sync=target")
CHART = "imagenet-operator"
# A story may train, be killed and train again; none is meant to take nearly as long.
STORY_SECONDS = 1800
# With Kubernetes' 50 s, each lost node takes a minute.
LOST_NODES_SOON = """kind: ClusterConfiguration
controllerManager: {extraArgs: {node-monitor-grace-period: 25s}}"""
# Leaders exit when an API server that restarts lets their Leases expire: the operator's, and those
# of Kubernetes' own controllers. After some of these faults they would wait for five minutes.
RESTARTED_SOON = """kind: KubeletConfiguration
featureGates: {KubeletCrashLoopBackOffMax: true}
crashLoopBackOff: {maxContainerRestartPeriod: 5s}"""
# Stories by their marks, in the order in which they run. Most of a story is waiting, which
# five do as fast as one; each is handed out when a process is free. Those that are alone leave the
# machine idle, and begin: who has something else to do, as CI has, does it beside them. Those that
# take turns do so too, and what needs no operator runs between them.
ONE_BY_ONE = ("--dist=load", "--maxschedchunk=1")
ORDER = {
    "alone and not long": (),
    "in_turn or without_operator": ("--numprocesses=5", *ONE_BY_ONE),
    "not (alone or in_turn or without_operator or timed or kueue)": (
        "--numprocesses=5",
        *ONE_BY_ONE,
    ),
    "timed": (),
}


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("test", "up", "load", "down", "chaos", "kueue"))
    parser.add_argument("pytest", nargs="*", help="options of pytest, after --")
    of_chaos = parser.add_argument_group("options of chaos")
    of_chaos.add_argument("--minutes", type=float, default=105, help="the longest time for faults")
    of_chaos.add_argument("--each", type=int, default=10, help="the least number of each kind")
    of_chaos.add_argument("--total", type=int, default=150, help="the least number of all kinds")
    of_chaos.add_argument("--seed", type=int, default=0, help="of all choices")
    of_chaos.add_argument("--page", type=Path, help="a page whose tables are replaced")
    arguments = parser.parse_args()
    # The cluster is deleted on SIGTERM and SIGHUP too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    signal.signal(signal.SIGHUP, lambda *_: sys.exit(129))
    if arguments.what == "test":
        return test(arguments.pytest)
    if arguments.what == "kueue":
        return test_queues(arguments.pytest)
    if arguments.what == "chaos":
        limits = (arguments.each, arguments.total, 60 * arguments.minutes)
        return run_chaos(Plan(*limits, arguments.seed), arguments.page)
    if arguments.what == "up":
        up(prepare())
    elif arguments.what == "load":
        cluster = existing()
        build_images(cluster.environment)
        load(cluster)
    else:
        existing().delete()
    return 0


def test(options: list[str]) -> int:
    """Make a cluster, run the stories, delete the cluster; return how pytest ended."""
    environment = prepare()
    cluster = Cluster(cluster_name(), environment)
    try:
        up(environment)
        ended = [run_stories(which, *how, *options) for which, how in ORDER.items()]
        return int(any(ended))
    finally:
        with timed("delete the cluster"):
            cluster.delete()


def test_queues(options: list[str]) -> int:
    """Make a cluster with Kueue, run the stories of queues, delete it; return how pytest ended."""
    environment = prepare()
    cluster = Cluster(cluster_name(), environment)
    try:
        up(environment)
        with timed("install Kueue"):
            kueue.install(cluster)
            # Now the chart lets the operator read workloads.
            install(cluster)
        return run_stories("kueue", *options)
    finally:
        with timed("delete the cluster"):
            cluster.delete()


def run_chaos(plan: Plan, page: Path | None) -> int:
    """Inject faults on a cluster of four nodes, then delete it; return 1 after a violation."""
    environment = prepare()
    cluster = Cluster(cluster_name(), environment)
    try:
        up(environment, workers=3, patches=(LOST_NODES_SOON, RESTARTED_SOON))
        # A second replica takes over when the first is killed, cut off or loses the Lease.
        Operator(cluster.kubectl.within(OPERATOR), cluster).start(replicas=2)
        with timed("chaos"):
            outcome = chaos.run(cluster, plan)
        text = report.tables(outcome)
        print(text, flush=True)
        if page is not None:
            report.write(page, text)
        return int(not outcome.is_right)
    finally:
        with timed("delete the cluster"):
            cluster.delete()


def run_stories(which: str, *options: str) -> int:
    """Run the stories of these marks; return pytest's exit code."""
    command = [sys.executable, "-m", "pytest", "tests/kind", "--verbose", "-m", which]
    with timed(f"run the stories ({which})"):
        ended = subprocess.run(
            [*command, f"--timeout={STORY_SECONDS}", *options], cwd=REPOSITORY, check=False
        )
    # A selection, by -k for one, may leave nothing to some of them.
    return 0 if ended.returncode == pytest.ExitCode.NO_TESTS_COLLECTED else ended.returncode


def up(environment: Environment, workers: int = 2, patches: Sequence[str] = ()) -> Cluster:
    """Make a cluster with this project's images and chart on it.

    Args:
        environment: What it is made with.
        workers: The number of nodes that run jobs.
        patches: Further documents of kubeadm's configuration.
    """
    cluster = Cluster(cluster_name(), environment)
    with timed("build the images"):
        build_images(environment)
    with timed("create the cluster"):
        cluster.create(workers, patches)
    load(cluster)
    with timed("install the chart"):
        define_monitors(cluster)
        install(cluster)
    return cluster


def build_images(environment: Environment) -> None:
    """Build the images as anyone would, by make."""
    options = environment.build_options
    targets = [f"image-{name}" for name in IMAGES]
    subprocess.run(
        ["make", *TWO_AT_A_TIME, *targets, f"DOCKER_BUILD_OPTIONS={options}"],
        cwd=REPOSITORY,
        check=True,
    )
    for name in EXTENDED:
        image = f"imagenetjob.test/environment-of-{name}:bookworm"
        build_image(environment, image, REPOSITORY / "images" / name, REPOSITORY, "environment")
    for image, (folder, context) in OF_STORIES.items():
        build_image(environment, image, folder, context)


def build_image(
    environment: Environment, image: str, folder: Path, context: Path, target: str = ""
) -> None:
    """Build an image, or a stage of it, by the Dockerfile of a folder."""
    command = ["docker", "build", "--quiet", *environment.build_options.split(), f"--tag={image}"]
    command += [f"--target={target}", f"--build-arg=VERSION={version()}"]
    where = [f"--file={folder / 'Dockerfile'}", str(context)]
    subprocess.run([*command, *where], check=True, stdout=subprocess.DEVNULL)


def load(cluster: Cluster) -> None:
    """Put the images on the nodes."""
    with timed("load the images"):
        cluster.load([*(f"imagenet-{name}:{version()}" for name in IMAGES), *OF_STORIES])


def define_monitors(cluster: Cluster) -> None:
    """Define PodMonitor and PrometheusRule as the Prometheus Operator does, which is not needed."""
    (definitions,) = build.build(["prometheus-operator"]).values()
    cluster.kubectl.define(Path(definitions))


def install(cluster: Cluster) -> None:
    """Install the chart, a little more hasty than it is, and wait until the operator is ready."""
    installed = subprocess.run(
        [
            cluster.environment.programs["helm"],
            f"--kubeconfig={cluster.kubeconfig}",
            *("upgrade", "--install", CHART, f"charts/{CHART}", "--values=tests/kind/values.yaml"),
            f"--namespace={CHART}",
            *("--create-namespace", "--wait", "--timeout=300s"),
        ],
        cwd=REPOSITORY,
        check=False,
    )
    if installed.returncode != 0:
        print(cluster.kubectl.within(CHART).account())
        raise SystemExit("the chart could not be installed; what its namespace holds is above")
    # Helm does not wait for the last replica, which may be unavailable during an update.
    cluster.kubectl.within(CHART)("rollout", "status", f"deployment/{CHART}", "--timeout=300s")


def version() -> str:
    """Return the version that the images are tagged with."""
    project = tomllib.loads((REPOSITORY / "operator" / "pyproject.toml").read_text())
    found: str = project["project"]["version"]
    return found


@contextmanager
def timed(step: str) -> Iterator[None]:
    """Say how long a step took."""
    started = time.monotonic()
    yield
    print(f"kind: {step}: {time.monotonic() - started:.0f} s", flush=True)


if __name__ == "__main__":
    sys.exit(main())
