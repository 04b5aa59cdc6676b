"""The strategies of TensorFlow itself: one worker alone, or several that know all addresses."""

import json
from typing import Any

from imagenet_operator.manifests.settings import DEFAULTS
from support.job_table import JOBS, members

Manifest = dict[str, Any]


def environment(pod: Manifest) -> dict[str, str]:
    return {
        item["name"]: item["value"]
        for item in pod["spec"]["containers"][0]["env"]
        if "value" in item
    }


def test_one_worker_mirrors_alone() -> None:
    (worker,) = members(JOBS["mirrored"])
    container = worker["spec"]["containers"][0]
    assert container["command"] == ["imagenet-train"]
    texts = " ".join(container["args"])
    assert "--framework TensorFlow --distribution-strategy mirrored --batch-size 512" in texts
    assert "--gpus 0,1,2,3" in texts and "--kv-store" not in texts
    assert not environment(worker).keys() & {"TF_CONFIG", "PORT"}
    assert [port["name"] for port in container["ports"]] == ["metrics"]
    assert container["image"] == DEFAULTS.images["TensorFlow"].gpu


def test_each_of_several_workers_knows_all_in_one_order_and_its_own_place() -> None:
    workers = members(JOBS["multi-worker mirrored"], 2)
    configs = [json.loads(environment(pod)["TF_CONFIG"]) for pod in workers]
    cluster = {"worker": ["digits-r2-worker-0.digits-r2:9092", "digits-r2-worker-1.digits-r2:9092"]}
    assert configs == [
        {"cluster": cluster, "task": {"type": "worker", "index": index}} for index in range(2)
    ]
    assert [pod["metadata"]["name"] for pod in workers] == [
        "digits-r2-worker-0",
        "digits-r2-worker-1",
    ]
    for pod in workers:
        container = pod["spec"]["containers"][0]
        texts = " ".join(container["args"])
        assert "--distribution-strategy multi_worker_mirrored --batch-size 256" in texts
        assert {"name": "training", "containerPort": 9092} in container["ports"]
        assert container["image"] == DEFAULTS.images["TensorFlow"].cpu
