"""AlexNet trains from R across two nodes: examples/r/alexnet-digits.yaml, but for its image."""

from __future__ import annotations

import yaml

from kind.cluster import Cluster
from kind.kubectl import SECONDS
from kind.run import R
from kind.stories.namespace import EXAMPLES, StoryNamespace, make_digits, member_nodes
from support.processes import wait_until

EPOCHS = 8


def test_r_goes_on_after_the_loss_of_a_worker(story: StoryNamespace, cluster: Cluster) -> None:
    story.claim("raw")
    story.volume("alexnet-digits-dataset", "standard")
    make_digits(story.folder / "raw" / "digits.tar")
    job = yaml.safe_load((EXAMPLES / "r" / "alexnet-digits.yaml").read_text())
    job["spec"]["training"]["image"] = R
    story.kubectl.apply(job)
    volume = story.folder / "alexnet-digits-dataset"

    wait_until(
        lambda: any(volume.glob("jobs/*/attempts/r0/epoch-0002.keras")), "two epochs", SECONDS
    )
    cluster.kill_program(story.kubectl.get("pods", "alexnet-digits-r0-worker-1"))
    status = story.wait_for_condition("Succeeded", "alexnet-digits")

    assert (status["restarts"], status["disruptions"]) == (1, 0)
    assert len(set(member_nodes(status).values())) == 2
    assert status["training"]["accuracy"]["validation"] > 0.8
    (results,) = volume.glob("jobs/*/attempts/r1")
    assert (results / "model.keras").stat().st_size > 0
    assert (results / f"epoch-{EPOCHS:04}.keras").exists()
    # It has gone on from an epoch of attempt 0.
    assert not (results / "epoch-0001.keras").exists()
