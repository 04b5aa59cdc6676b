"""What stories have: a namespace for each, and the operator."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kind.cluster import Cluster
from kind.conftest import OPERATOR, turn
from kind.kubectl import Kubectl, Resource
from kind.stories import jobs
from kind.stories.deployment import Operator
from kind.stories.namespace import StoryNamespace, prepare_story
from kind.stories.release import Release
from support.tiny_dataset import write_dataset

# What writes to a story's folder, and what would make it again, which goes first.
WRITERS: tuple[Resource, ...] = ("imagenetjobs", "jobs", "pods")


@pytest.fixture
def story(cluster: Cluster, namespace: Kubectl) -> Iterator[StoryNamespace]:
    """A namespace with the strictest Pod Security, a shared claim, and the stand-ins."""
    story = prepare_story(cluster, namespace)
    yield story
    for kind in WRITERS:
        namespace.delete_all(kind, grace_seconds=1)
        namespace.wait_until(kind, lambda left: not left)
    namespace.delete_all("persistentvolumes", story.volumes)
    shutil.rmtree(story.folder)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sealed dataset of handwritten digits."""
    folder = tmp_path_factory.mktemp("dataset") / "digits"
    write_dataset(folder, train=600, validation=jobs.VALIDATED)
    return folder


@pytest.fixture
def digits_story(story: StoryNamespace, digits: Path) -> StoryNamespace:
    """A namespace whose claim holds the digits, ready to train on."""
    shutil.copytree(digits, story.data / jobs.DIGITS)
    return story


@pytest.fixture
def operator(cluster: Cluster) -> Iterator[Operator]:
    """The operator, which runs again after the story."""
    operator = Operator(cluster.kubectl.within(OPERATOR), cluster)
    with turn(cluster, "operator"):
        yield operator
        operator.start()


@pytest.fixture
def release(cluster: Cluster) -> Iterator[Release]:
    """The chart's release, which is as it was after the story."""
    release = Release(cluster)
    yield release
    release.upgrade()


@pytest.fixture
def cordon(cluster: Cluster) -> Iterator[Callable[[str], None]]:
    """Let no further pod on a node; all nodes are open again after the story."""

    def close(node: str) -> None:
        cluster.kubectl("cordon", node)

    yield close
    cluster.kubectl("uncordon", *cluster.workers)
