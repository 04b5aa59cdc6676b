"""The user's own program in the workers: the example's script, and a shell command."""

from __future__ import annotations

import json

import pytest
import yaml

from kind.stories.jobs import CLAIM, DIGITS, IMAGE, Manifest, trained
from kind.stories.namespace import EXAMPLES, StoryNamespace


def test_a_program_of_ones_own_meets_its_peers_and_reads_the_dataset(
    digits_story: StoryNamespace,
) -> None:
    digits_story.kubectl.apply(own_image())

    status = digits_story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    results = digits_story.output() / "attempts" / "r0"
    meeting = "meets the others at story-r0-rendezvous-0.story-r0:9091"
    assert {path.name: path.read_text().splitlines() for path in results.iterdir()} == {
        f"worker-{index}.txt": [f"worker {index} of 2", meeting, "reads 2 shards"]
        for index in range(2)
    }


# It needs no framework: it writes its environment to a file.
TELLS = """
folder="$IMAGENET_RESULTS/attempts/r$IMAGENET_ATTEMPT"
mkdir -p "$folder" && test -f "$IMAGENET_DATASET/dataset.json" && env > "$folder/$POD_NAME"
"""
SCHEDULER = {
    "DMLC_ROLE": "worker",
    "DMLC_PS_ROOT_URI": "story-r0-scheduler-0.story-r0",
    "DMLC_PS_ROOT_PORT": "9091",
    "DMLC_NUM_WORKER": "2",
    "DMLC_NUM_SERVER": "1",
}
FORMATS = {"MXNet": "RecordIO", "TensorFlow": "TFRecord"}
WORKERS = [f"story-r0-worker-{index}.story-r0:9092" for index in range(2)]


@pytest.mark.parametrize(
    ("framework", "strategy"),
    [
        ("MXNet", {"parameterServer": {"kvStore": "dist_sync", "servers": {"replicas": 1}}}),
        ("TensorFlow", {"multiWorkerMirrored": {}}),
    ],
    ids=["parameter server", "multi-worker mirrored"],
)
def test_a_line_of_shell_is_told_where_its_peers_are(
    digits_story: StoryNamespace, framework: str, strategy: Manifest
) -> None:
    container = {"name": "main", "command": ["sh", "-c", TELLS]}
    source = {"prepared": {"claimName": CLAIM, "path": DIGITS}}
    digits_story.kubectl.apply(
        trained(
            dataset={"source": source, "preprocessing": {"format": FORMATS[framework]}},
            strategy=strategy,
            workers={"replicas": 2, "template": {"spec": {"containers": [container]}}},
            training={"image": IMAGE, "framework": framework},
        )
    )

    status = digits_story.wait_for_condition("Succeeded")

    assert (status["restarts"], status["disruptions"]) == (0, 0)
    for index in range(2):
        written = digits_story.output() / "attempts" / "r0" / f"story-r0-worker-{index}"
        lines = written.read_text().splitlines()
        environment = dict(line.split("=", 1) for line in lines if "=" in line)
        if framework == "MXNet":
            assert environment.items() >= SCHEDULER.items()
        else:
            config = json.loads(environment["TF_CONFIG"])
            assert config["cluster"]["worker"] == WORKERS
            assert config["task"] == {"type": "worker", "index": index}


def own_image() -> Manifest:
    """The example's program and strategy, on the digits; no node has, or can pull, its image."""
    training = yaml.safe_load((EXAMPLES / "own-image.yaml").read_text())["spec"]["training"]
    return trained(
        strategy=training["strategy"],
        workers={"replicas": 2, "template": training["workers"]["template"]},
        training={"image": IMAGE},
    )
