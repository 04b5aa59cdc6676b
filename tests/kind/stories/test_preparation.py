"""Preprocessing that is killed at each step, and two jobs that make the same dataset at once."""

from __future__ import annotations

import subprocess
import sys

from imagenet_workloads.dataset import read_dataset
from kind.stories.jobs import CLAIM, played, trained
from kind.stories.place import Place
from kind.stories.test_digits import EXAMPLES


def test_pods_of_each_step_are_killed(place: Place) -> None:
    steps = ("index", "pack", "seal")
    place.kubectl.apply(played(behaviour=dict.fromkeys(steps, "hold")))
    for role in steps:
        (killed, *_) = place.wait_for_running_pods(role, 1)
        place.kill_pod(killed)
        place.release(role)

    status = place.wait_for_condition("Succeeded", seconds=120)

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    assert status["dataset"]["sealed"]


def test_two_jobs_make_one_dataset_at_once(place: Place) -> None:
    archive = place.data / "digits.tar"
    subprocess.run([sys.executable, EXAMPLES / "make_digits.py", archive], check=True)
    names = ("first", "second")

    place.kubectl.apply(
        *(
            trained(
                name,
                epochs=1,
                strategy={"single": {"kvStore": "local"}},
                workers={"replicas": 1},
                dataset={
                    "source": {"volume": {"claimName": CLAIM, "path": "digits.tar"}},
                    "validation": {"split": {"imagesPerClass": 20}},
                    "preprocessing": {"minImagesPerClass": 100, "shards": 2},
                    "volume": {"claimName": CLAIM},
                },
            )
            for name in names
        )
    )
    first, second = (place.wait_for_condition("Succeeded", name, 120) for name in names)

    assert first["dataset"]["key"] == second["dataset"]["key"]
    (folder,) = (place.data / "datasets").iterdir()
    dataset = read_dataset(folder)
    shards = (*dataset.train.shards, *dataset.validation.shards)
    named = {name for shard in shards for name in (shard.record, shard.index)}
    assert {path.name for path in folder.iterdir() if path.suffix in (".rec", ".idx")} == named
