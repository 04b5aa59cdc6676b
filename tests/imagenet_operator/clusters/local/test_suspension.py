"""A training that is suspended leaves no process, and none of those that decode for it."""

from __future__ import annotations

import asyncio
import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from imagenet_operator.cli import local_resources
from imagenet_operator.clusters.local import pods, preflight
from imagenet_operator.clusters.local.cluster import LocalCluster
from imagenet_operator.clusters.local.machine import Gpus, Machine, Volumes, claim_addresses
from imagenet_operator.clusters.local.runner import LocalRun, View
from imagenet_operator.reconcile.policies import job_status
from imagenet_spec.resource import ImageNetJob
from support.job_table import UID
from support.processes import is_running, processes_with

DECODERS = 2
MANIFEST: dict[str, Any] = {
    "apiVersion": "imagenet.dev/v1alpha1",
    "kind": "ImageNetJob",
    "metadata": {"name": "suspended", "uid": UID},
    "spec": {
        "dataset": {
            "source": {
                "synthetic": {"classes": 4, "imagesPerClass": 60, "imageShape": [3, 28, 28]}
            },
            "validation": {"split": {"imagesPerClass": 20}},
            "preprocessing": {"shards": 1, "minImagesPerClass": 1},
            "volume": {"size": "1Gi"},
        },
        "training": {
            "strategy": {"single": {"kvStore": "local"}},
            "model": {"network": "lenet", "imageShape": [3, 28, 28]},
            "batchSize": 32,
            "epochs": 10_000,
            "dataThreads": DECODERS,
            "workers": {"replicas": 1},
            "extraArgs": ["--decoding", "processes"],
        },
    },
}


def suspended(job: ImageNetJob) -> ImageNetJob:
    policy = job.spec.run_policy.model_copy(update={"suspend": True})
    spec = job.spec.model_copy(update={"run_policy": policy})
    return job.model_copy(update={"spec": spec})


def decoders_of(pod: str, folder: Path) -> list[int]:
    """Return the decoders of a pod's processes: their argument is the process that trains."""
    return [
        decoder
        for process in processes_with(f"POD_NAME={pod}\0")
        if str(folder).encode() in Path(f"/proc/{process}/environ").read_bytes()
        for decoder in processes_with(f"decoder_program\0{process}\0")
    ]


@pytest.mark.costly
def test_a_suspended_training_leaves_no_decoder(tmp_path: Path) -> None:
    job = ImageNetJob.model_validate(MANIFEST)
    settings = local_resources.settings(9090)
    decoders: list[int] = []
    with closing(claim_addresses()) as block:
        machine = Machine(
            volumes=Volumes(tmp_path / "volumes", {}),
            addresses=block,
            gpus=Gpus(()),
            programs=local_resources.programs(job),
            environment={"OMP_NUM_THREADS": "1", **pods.inherited(os.environ)},
            images=preflight.images(job, settings.manifests),
            logs=tmp_path,
            scratch=tmp_path,
            slots=2,
        )
        with closing(LocalCluster(machine, lambda _: None, lambda *_: None)) as cluster:

            def show(view: View) -> None:
                """Suspend the job once it trains: its decoders start earlier, one by one."""
                if not decoders and view.sample is not None and view.sample.phase == "training":
                    decoders.extend(decoders_of("suspended-r0-worker-0", tmp_path))
                if decoders:
                    run.job = suspended(run.job)

            def is_over() -> bool:
                return job_status.holds(run.job.status.conditions, "Suspended")

            run = LocalRun(cluster, job, settings, show, is_over)
            asyncio.run(run.run())
            left = [pid for pid in decoders if is_running(pid)]

    assert len(decoders) == DECODERS
    assert left == []
    # It saved what it had trained.
    assert "checkpoint epoch-" in (tmp_path / "suspended-r0-worker-0.log").read_text()
