"""The first example: examples/digits.yaml, unchanged, by kubectl apply."""

from __future__ import annotations

import json

import yaml

from kind.stories.jobs import Manifest
from kind.stories.namespace import EXAMPLES, StoryNamespace, make_digits, member_nodes


def test_digits_are_learned_across_two_nodes_and_their_dataset_is_used_again(
    story: StoryNamespace,
) -> None:
    story.claim("raw")
    story.volume("digits-dataset", "standard")
    make_digits(story.folder / "raw" / "digits.tar")

    story.kubectl("apply", f"--filename={EXAMPLES / 'digits.yaml'}")
    first = story.wait_for_condition("Succeeded", "digits")

    assert first["restarts"] == first["disruptions"] == 0
    assert len(set(member_nodes(first).values())) == 2
    assert first["dataset"]["classes"] == 9
    assert first["dataset"]["droppedClasses"] == 1
    assert first["dataset"]["images"]["validation"] == 180
    dataset = story.folder / "digits-dataset"
    (result,) = dataset.glob("jobs/digits-*/attempts/r0/result.json")
    written = json.loads(result.read_text())
    assert written["validation"]["top1"] >= 0.95
    beside = ("metrics.jsonl", "labels.json", "evaluation.json", "model-card.md")
    for name in (*written["model"].values(), *beside):
        assert (result.parent / name).stat().st_size > 0
    assert first["training"]["accuracy"]["validation"] >= 0.95

    shards = {path: path.stat().st_mtime_ns for path in dataset.glob("datasets/*/*")}
    story.kubectl.apply(again())
    second = story.wait_for_condition("Succeeded", "digits-again")

    assert second["dataset"]["key"] == first["dataset"]["key"]
    jobs = {job["metadata"]["name"] for job in story.kubectl.all("jobs")}
    assert jobs == {"digits-index", "digits-pack", "digits-seal", "digits-again-index"}
    assert {path: path.stat().st_mtime_ns for path in dataset.glob("datasets/*/*")} == shards
    shown = story.kubectl("get", "inj").splitlines()
    print("\n".join(shown))
    assert shown[0].split()[:2] == ["NAME", "PHASE"]
    assert [line.split()[:2] for line in shown[1:]] == [
        ["digits", "Succeeded"],
        ["digits-again", "Succeeded"],
    ]


def again() -> Manifest:
    """The example for one epoch, on the dataset that the first has made."""
    job: Manifest = yaml.safe_load((EXAMPLES / "digits.yaml").read_text())
    job["metadata"]["name"] = "digits-again"
    job["spec"]["dataset"]["volume"] = {"claimName": "digits-dataset"}
    job["spec"]["training"] |= {"epochs": 1, "optimizer": {"stepEpochs": []}}
    return job
