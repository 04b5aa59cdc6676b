"""Workers of TensorFlow that all know each other's address."""

import json

from imagenet_operator.manifests.settings import DEFAULTS
from support.job_table import JOBS, members, variables


def test_each_of_several_workers_knows_all_in_one_order_and_its_own_place() -> None:
    workers = members(JOBS["multi-worker mirrored"], 2)
    configs = [json.loads(variables(pod["spec"]["containers"][0])["TF_CONFIG"]) for pod in workers]
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
        assert "--distribution-strategy multi_worker_mirrored --join-timeout 1500" in texts
        assert "--batch-size 256" in texts
        assert {"name": "training", "containerPort": 9092} in container["ports"]
        assert container["image"] == DEFAULTS.images["TensorFlow"].cpu
