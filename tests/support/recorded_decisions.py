"""What the operator decides in many random stories of one job, as one digest for each story.

A story is drawn by its number alone. It is played in the simulated cluster, and every decision is
part of its digest: what is created, deleted and patched, the status, the reasons of the events,
and the time of the next reconcile. It leaves out sentences, which may be written better, the
arguments of programs, which `recorded_facts` has, and images, whose tags are of the release.

    PYTHONPATH=tests python -m support.recorded_decisions --story 3    # its decisions, to compare
    PYTHONPATH=tests python -m support.recorded_decisions              # record all digests again
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from imagenet_operator.manifests import settings as manifests
from imagenet_operator.reconcile.types import Decision, ReconcileSettings
from support.job_table import BUCKET, FETCHED, PREPARED, SERVERS, TFRECORD, manifest
from support.simulated_cluster import SimulatedCluster
from support.simulated_objects import attempt_of

RECORDED = Path(__file__).parents[1] / "recorded" / "decisions.json"
STORIES, STEPS = 80, 60
SETTINGS = ReconcileSettings(
    disruption_limit=3,
    full_volume_limit=2,
    manifests=manifests.Settings(pod_disruption_budget=True),
)
NODES = {"a": 3, "b": 3, "c": 3}
STRATEGIES: list[dict[str, Any]] = [
    SERVERS,
    {"single": {}},
    {"horovod": {"slotsPerWorker": 1}},
    {"distributedDataParallel": {}},
    {"multiWorkerMirrored": {}},
    {"mirrored": {}},
]
FRAMEWORKS = {
    "distributedDataParallel": "PyTorch",
    "multiWorkerMirrored": "TensorFlow",
    "mirrored": "TensorFlow",
}
LEFT_OUT = ("args", "image", "message")
CODES = (1, 2, 3, 4, 134, 137)


def draw_job(drawn: random.Random) -> dict[str, Any]:
    """Draw a manifest."""
    (name,) = strategy = drawn.choice(STRATEGIES)
    framework = FRAMEWORKS.get(name, "MXNet")
    dataset: dict[str, Any] = dict(TFRECORD) if framework == "TensorFlow" else {}
    origin = drawn.choice(["images", "images", "prepared", "fetched"])
    if origin == "fetched":
        dataset["source"] = FETCHED
    if drawn.random() < 0.25:
        dataset["verify"] = "Checksums"
    if drawn.random() < 0.3:
        dataset["publish"] = {"s3": BUCKET}
    workers: dict[str, Any] = {"replicas": 1 if name in ("single", "mirrored") else 2}
    if workers["replicas"] > 1 and drawn.random() < 0.3:
        elastic = {"waitSeconds": 100, "maxChangesPerHour": 3}
        workers = {"replicas": 4, "minReplicas": 2, "elastic": elastic}
    policy = {
        "backoffLimit": drawn.randint(0, 3),
        "cleanPodPolicy": drawn.choice(["None", "Running", "All"]),
        "progressDeadlineSeconds": 300,
        "retentionPolicy": drawn.choice(["Retain", "Delete"]),
        "schedulingPolicy": {
            "gang": drawn.choice(["Timeout", "Wait"]),
            "scheduleTimeoutSeconds": 120,
        },
    }
    for field in ("activeDeadlineSeconds", "preparationDeadlineSeconds"):
        if drawn.random() < 0.2:
            policy[field] = 400
    if drawn.random() < 0.3:
        policy["ttlSecondsAfterFinished"] = drawn.choice([0, 100])
    training = {"strategy": strategy, "framework": framework, "batchSize": 480}
    document = manifest(
        dataset=dataset,
        training={**training, "workers": {**workers, "gpus": drawn.randint(0, 1)}},
        run_policy=policy,
    )
    if origin == "prepared":
        document["spec"]["dataset"]["source"] = PREPARED
        del document["spec"]["dataset"]["volume"]
    return document


def play(story: int) -> Iterator[Decision]:
    """Play a story; yield the decisions in their order."""
    drawn = random.Random(story)
    document = draw_job(drawn)
    cluster = SimulatedCluster(document, NODES, SETTINGS, tells_capacity=drawn.random() < 0.5)
    cluster.index_result["sealed"] = drawn.random() < 0.2
    cluster.is_sealed = "prepared" in document["spec"]["dataset"]["source"]
    for step in range(STEPS):
        if step > 8 and drawn.random() < 0.3:
            disturb(cluster, drawn)
        if drawn.random() < 0.9:
            cluster.turn()
        if step > STEPS // 2:
            cluster.finish_training()
        if cluster.is_deleted:
            return
        yield cluster.reconcile()
        cluster.now += timedelta(seconds=drawn.choice([1, 5, 20, 20, 60, 400]))


def disturb(cluster: SimulatedCluster, drawn: random.Random) -> None:
    """Let one thing happen that no job wants, if it can."""
    pods, running, jobs = cluster.members(), cluster.running(), cluster.unfinished_jobs()
    code, node = drawn.choice(CODES), drawn.choice("abc")
    what = drawn.randrange(12)
    if what < 3 and running:
        cluster.exit(drawn.choice(running), code, "it crashed")
    elif what == 3 and pods:
        cluster.evict(drawn.choice(pods))
    elif what == 4 and pods:
        cluster.delete_by_hand(drawn.choice(pods))
    elif what == 5 and pods:
        cluster.vanish(drawn.choice(pods))
    elif what == 6 and (startable := cluster.startable()):
        cluster.block(drawn.choice(startable), "ErrImagePull")
    elif what == 7 and jobs:
        cluster.fail_job(jobs[0]) if drawn.random() < 0.2 else cluster.lose_job(jobs[0])
    elif what == 8:
        if node in cluster.unreachable:
            cluster.recover(node)
        else:
            cluster.lose(node)
    elif what == 9 and running:
        cluster.hung.add(max(map(attempt_of, running)))
    elif what == 10:
        cluster.suspend(drawn.random() < 0.4)
    elif what == 11:
        cluster.evict_from_lost_nodes()


def plain(decision: Decision) -> dict[str, Any]:
    """Return a decision as JSON, without what LEFT_OUT names."""
    after = decision.requeue_after
    found: dict[str, Any] = _without(
        {
            "create": list(decision.create),
            "delete": [[one.kind, one.name, one.uid] for one in decision.delete],
            "patch": [[one.kind, one.name, one.uid, one.merge] for one in decision.patch],
            "status": decision.status.to_manifest(),
            "events": [[one.type, one.reason] for one in decision.events],
            "requeueAfter": None if after is None else after.total_seconds(),
        }
    )
    return found


def _without(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without(one) for name, one in value.items() if name not in LEFT_OUT}
    return [_without(one) for one in value] if isinstance(value, list | tuple) else value


def digest(story: int) -> str:
    """Return the digest of a story's decisions."""
    found = hashlib.sha256()
    for decision in play(story):
        found.update(json.dumps(plain(decision), sort_keys=True).encode())
    return found.hexdigest()[:16]


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--story", type=int, help="print the decisions of this one")
    options = parser.parse_args()
    if options.story is not None:
        for decision in play(options.story):
            json.dump(plain(decision), sys.stdout, sort_keys=True, indent=1)
            print()
        return
    RECORDED.write_text(json.dumps([digest(story) for story in range(STORIES)], indent=0) + "\n")


if __name__ == "__main__":
    main()
