"""A program of somebody else's as the workers: the example's script, in an image that is here."""

from __future__ import annotations

import yaml

from kind.stories.jobs import IMAGE, Manifest, trained
from kind.stories.place import EXAMPLES, Place


def test_a_program_of_ones_own_meets_its_peers_and_reads_the_dataset(digits_place: Place) -> None:
    digits_place.kubectl.apply(own_image())

    status = digits_place.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    results = digits_place.output() / "attempts" / "r0"
    meeting = "meets the others at story-r0-rendezvous-0.story-r0:9091"
    assert {path.name: path.read_text().splitlines() for path in results.iterdir()} == {
        f"worker-{index}.txt": [f"worker {index} of 2", meeting, "reads 2 shards"]
        for index in range(2)
    }


def own_image() -> Manifest:
    """The example's program and strategy, on the digits; no node has, or can pull, its image."""
    training = yaml.safe_load((EXAMPLES / "own-image.yaml").read_text())["spec"]["training"]
    return trained(
        strategy=training["strategy"],
        workers={"replicas": 2, "template": training["workers"]["template"]},
        training={"image": IMAGE},
    )
