"""The fixtures of stories: the cluster, a namespace for each, GPUs, dying nodes.

A story asks for `namespace` and gets a kubectl for a new one, which is gone after it with all that
is in it. When a story fails, what the namespace held is printed with it.

Stories run several at a time, but for those that do something to what all of them share: its
fixtures mark them. Those with the mark `in_turn` stop the operator, or need the GPUs that nodes are
said to have: one of the former and one of the latter may run at the same time. Those with the
mark `alone` bear no other beside them; what has the mark `timed` comes last, when nothing else is
left. Tests beside the folder of the stories test the cluster, not the operator. They have the mark
`without_operator`.
"""

from __future__ import annotations

import fcntl
import re
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from kind.cluster import Cluster, existing
from kind.kubectl import Kubectl, NotFoundError

HERE = Path(__file__).resolve().parent

GPUS = "nvidia.com/gpu"
# The namespace of the chart's release.
OPERATOR = "imagenet-operator"

# A test with one of these fixtures changes the nodes or the operator for all tests.
ALONE = {"cordon", "release", "stop_node"}
# Who asks for one of these has it alone for the time, and bears that another has the other.
IN_TURN = {"advertise_gpus", "operator"}
# The modules whose stories take longest, the longest first: they begin, so that none of them is
# left after all others.
LONGEST = (
    *("test_digits", "test_scaling", "test_metrics", "test_strategies", "test_members"),
    *("test_first_jobs", "test_preparation", "test_deletion", "test_suspension"),
)

# Those of which CI runs a part: their jobs train for minutes, one for each strategy, fault or step.
COSTLY = ("test_strategies", "test_members", "test_scaling", "test_r", "test_preparation")

_reports = pytest.StashKey[list[pytest.TestReport]]()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The cluster that `tests/kind/run.py` made."""
    return existing()


@pytest.fixture
def namespace(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Kubectl]:
    """kubectl for a namespace of this story's own."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.lower()).strip("-")[:60].rstrip("-")
    with fresh_namespace(cluster, name) as kubectl:
        yield kubectl
        if any(report.failed for report in request.node.stash.get(_reports, [])):
            print(kubectl.account())
            print(account_of_operator(cluster.kubectl.within(OPERATOR), name))


@contextmanager
def fresh_namespace(cluster: Cluster, name: str) -> Iterator[Kubectl]:
    """Make a namespace for the block."""
    kubectl = cluster.kubectl.within(name)
    # Leftovers of a run that was killed.
    with suppress(NotFoundError):
        kubectl.delete("namespaces", name)
    kubectl.wait_until("namespaces", lambda namespaces: name not in namespaces)
    kubectl.create("namespaces", {"metadata": {"name": name}})
    # Without it no pod can be made.
    kubectl.wait_until("serviceaccounts", lambda accounts: "default" in accounts)
    yield kubectl
    # What it holds takes seconds to go, for which the next story need not wait.
    kubectl.delete("namespaces", name)


def account_of_operator(kubectl: Kubectl, namespace: str) -> str:
    """Return what the operator said of a namespace, and of none."""
    replicas = ("--selector=app.kubernetes.io/name=imagenet-operator", "--prefix")
    said = kubectl("logs", *replicas, "--tail=2000", check=False)
    # What it said of other stories is not of interest; what it said of none may be.
    lines = [line for line in said.splitlines() if namespace in line or "test-" not in line]
    return "\n".join([kubectl("get", "pods", "--output=wide"), *lines[-120:]])


@pytest.fixture
def advertise_gpus(cluster: Cluster) -> Iterator[Callable[[str, int], None]]:
    """Let a node say that it has GPUs: `advertise_gpus(node, 16)`. None has any after the story."""
    path = "/" + GPUS.replace("/", "~1")

    def patch(node: str, *operations: dict[str, Any]) -> None:
        cluster.kubectl.patch_status("nodes", node, list(operations))

    said: set[str] = set()

    def advertise(node: str, count: int) -> None:
        said.add(node)
        patch(
            node,
            {"op": "add", "path": f"/status/capacity{path}", "value": str(count)},
            {"op": "add", "path": f"/status/allocatable{path}", "value": str(count)},
        )

    with turn(cluster, "gpus"):
        yield advertise
        for node in said:
            patch(
                node,
                {"op": "remove", "path": f"/status/capacity{path}"},
                {"op": "remove", "path": f"/status/allocatable{path}"},
            )


@contextmanager
def turn(cluster: Cluster, what: str) -> Iterator[None]:
    """Have a part of the cluster alone, among the processes that run stories."""
    with (cluster.folder / f"{what}.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def stop_node(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Let a node die: `stop_node(node)`. It is back, and ready, after the story."""
    stopped: list[str] = []

    def stop(node: str) -> None:
        cluster.stop_node(node)
        stopped.append(node)

    yield stop
    for node in stopped:
        cluster.start_node(node)


def pytest_configure(config: pytest.Config) -> None:
    """Make the marks known."""
    config.addinivalue_line("markers", "alone: no other story may run at the same time")
    config.addinivalue_line("markers", "in_turn: takes turns with others that need the same")
    config.addinivalue_line("markers", "timed: says how long something took")
    config.addinivalue_line("markers", "long: runs only when it is asked for")
    config.addinivalue_line("markers", "kueue: needs Kueue, which other stories do without")
    config.addinivalue_line("markers", "without_operator: does not mind what it does")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the stories that bear no others beside them, or any; put the longest first."""
    for item in items:
        if not isinstance(item, pytest.Function) or item.get_closest_marker("timed"):
            continue
        if item.path.stem in COSTLY:
            item.add_marker(pytest.mark.costly)
        if ALONE.intersection(item.fixturenames):
            item.add_marker(pytest.mark.alone)
        elif IN_TURN.intersection(item.fixturenames):
            item.add_marker(pytest.mark.in_turn)
        elif item.path.parent == HERE:
            item.add_marker(pytest.mark.without_operator)
    items.sort(key=rank)
    places = places_between_turns(items)
    items.sort(key=lambda item: places.get(item, -1))


def places_between_turns(items: Iterable[pytest.Item]) -> dict[pytest.Item, float]:
    """Return a place, from 0 to 1, for those that take turns and for those that need no operator.

    By it each module of the latter, and those of the former that wait for the same, are spread
    evenly over the others.
    """
    groups: dict[object, list[pytest.Item]] = {}
    for item in items:
        if isinstance(item, pytest.Function) and item.get_closest_marker("in_turn"):
            groups.setdefault(frozenset(IN_TURN.intersection(item.fixturenames)), []).append(item)
        elif item.get_closest_marker("without_operator"):
            groups.setdefault(item.path, []).append(item)
    return {
        item: index / len(group) for group in groups.values() for index, item in enumerate(group)
    }


def rank(item: pytest.Item) -> int:
    """Return the place of a story's module among those that take long, or the one after them."""
    return LONGEST.index(item.path.stem) if item.path.stem in LONGEST else len(LONGEST)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keep the reports where fixtures find them."""
    report = yield
    item.stash.setdefault(_reports, []).append(report)
    return report


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """Say with each story how long it took."""
    if report.when != "call" or not report.passed:
        return None
    return "passed", ".", f"PASSED in {report.duration:.1f} s"
