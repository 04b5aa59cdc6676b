"""Preprocessing that is killed at each step, and two jobs that make the same dataset at once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Mapping

from imagenet_workloads.dataset import read_dataset
from kind.cluster import Cluster
from kind.stories.jobs import CLAIM, Manifest, held, played, trained
from kind.stories.place import Place
from kind.stories.test_digits import EXAMPLES

# What each program writes last: all of its work is done then, and nobody sees it yet.
LAST_FILES = {"index": "/datasets/", "pack": r"\.rec$", "seal": r"/dataset\.json$"}


def test_pods_of_each_step_are_killed(place: Place) -> None:
    steps = ("index", "pack", "seal")
    place.kubectl.apply(played(behaviour=dict.fromkeys(steps, "hold")))
    for role in steps:
        (killed, *_) = place.wait_for_running_pods(role, 1)
        place.kill_pod(killed)
        place.release(role)

    status = place.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["dataset"]["sealed"]


def test_programs_of_each_step_are_killed(place: Place, cluster: Cluster) -> None:
    make_archive(place)
    place.kubectl.apply(from_archive(hold_at=LAST_FILES))
    for role in LAST_FILES:
        pod = place.wait_until_held(role)
        cluster.kill_program(place.kubectl.get("pod", pod))
        place.kubectl.wait(f"pod/{pod}", "jsonpath={.status.phase}=Failed")
        place.release(role)

    status = place.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    check_dataset(place, status)


def test_two_jobs_make_one_dataset_at_once(place: Place) -> None:
    make_archive(place)
    names = ("first", "second")

    place.kubectl.apply(*map(from_archive, names))
    first, second = (place.wait_for_condition("Succeeded", name) for name in names)

    assert first["dataset"]["key"] == second["dataset"]["key"]
    check_dataset(place, first)


def make_archive(place: Place) -> None:
    """Put the example's archive of raw images on the claim."""
    archive = place.data / "digits.tar"
    subprocess.run([sys.executable, EXAMPLES / "make_digits.py", archive], check=True)


def from_archive(name: str = "story", *, hold_at: Mapping[str, str] | None = None) -> Manifest:
    """A job that makes a dataset of that archive, and trains on it for a moment."""
    return trained(
        name,
        epochs=1,
        strategy={"single": {"kvStore": "local"}},
        workers={"replicas": 1},
        dataset={
            "source": {"volume": {"claimName": CLAIM, "path": "digits.tar"}},
            "validation": {"split": {"imagesPerClass": 20}},
            "preprocessing": {
                "minImagesPerClass": 100,
                "shards": 2,
                **({"template": held(hold_at)} if hold_at else {}),
            },
            "volume": {"claimName": CLAIM},
        },
    )


def check_dataset(place: Place, status: Manifest) -> None:
    """There is one dataset, with every shard that it names as it was written, and no other."""
    (folder,) = (place.data / "datasets").iterdir()
    assert folder.name == status["dataset"]["key"]
    dataset = read_dataset(folder)
    shards = (*dataset.train.shards, *dataset.validation.shards)
    for shard in shards:
        assert hashlib.sha256((folder / shard.record).read_bytes()).hexdigest() == shard.sha256
    named = {name for shard in shards for name in (shard.record, shard.index)}
    assert {path.name for path in folder.iterdir() if path.suffix in (".rec", ".idx")} == named
