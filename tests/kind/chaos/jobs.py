"""The twenty jobs of a chaos run: every strategy trains digits, the others play the programs.

Those that train are real, and few at a time, because two cores are all there is. Those that play
hold until the faults are over, so that faults meet them in every state: preparing, waiting for
GPUs, running, restarting.
"""

from __future__ import annotations

from dataclasses import dataclass

from kind.stories.jobs import IMAGE, Manifest, from_archive, played, trained

GPUS_OF_A_WORKER = 2

_AT_ONCE = [
    {
        "key": f"node.kubernetes.io/{taint}",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    for taint in ("unreachable", "not-ready")
]
"""Pods leave a node that is lost in seconds, not in Kubernetes' five minutes."""

_POLICY = {
    # The faults alone must not use up the retries of a job.
    "backoffLimit": 1000,
    "progressDeadlineSeconds": 90,
    "schedulingPolicy": {"scheduleTimeoutSeconds": 120},
}

STRATEGIES: dict[str, tuple[str, Manifest, int]] = {
    "dist-sync": ("MXNet", {"parameterServer": {"kvStore": "dist_sync"}}, 2),
    "dist-device-sync": ("MXNet", {"parameterServer": {"kvStore": "dist_device_sync"}}, 2),
    "dist-async": ("MXNet", {"parameterServer": {"kvStore": "dist_async"}}, 2),
    "mxnet-horovod": ("MXNet", {"horovod": {"slotsPerWorker": 1}}, 2),
    "single": ("MXNet", {"single": {}}, 1),
    "tensorflow-horovod": ("TensorFlow", {"horovod": {"slotsPerWorker": 1}}, 2),
    "multi-worker-mirrored": ("TensorFlow", {"multiWorkerMirrored": {}}, 2),
    "mirrored": ("TensorFlow", {"mirrored": {}}, 1),
    "distributed-data-parallel": ("PyTorch", {"distributedDataParallel": {}}, 2),
}
"""The framework, the strategy and the number of workers of each job that trains."""


@dataclass(frozen=True)
class ChaosJob:
    """One job, in a namespace that is named after it.

    Attributes:
        name: Of its namespace, without the prefix.
        manifest: The job.
        trains: Whether its programs are the real ones.
        crashes: Whether its own programs fail until the job fails.
    """

    name: str
    manifest: Manifest
    trains: bool = False
    crashes: bool = False


def all_jobs(epochs: int) -> list[ChaosJob]:
    """Return the twenty jobs, in the order in which they are created.

    Args:
        epochs: Of the jobs that train.
    """
    return [*_playing(), *_training(epochs)]


def _training(epochs: int) -> list[ChaosJob]:
    jobs = []
    for name, (framework, strategy, workers) in STRATEGIES.items():
        archive = from_archive(format="TFRecord") if framework == "TensorFlow" else None
        manifest = trained(
            epochs=epochs,
            strategy=strategy,
            workers={"replicas": workers},
            dataset=archive,
            training={"framework": framework},
            template={"tolerations": _AT_ONCE, "terminationGracePeriodSeconds": 2},
            run_policy=_POLICY,
        )
        jobs.append(ChaosJob(name, manifest, trains=True))
    return jobs


def _playing() -> list[ChaosJob]:
    held = {"worker": "hold"}
    plain = [ChaosJob(f"plays-{index}", _play(held)) for index in range(3)]
    gangs = [
        ChaosJob(f"waits-{index}", _play(held, gang="Wait", gpus=GPUS_OF_A_WORKER))
        for index in range(3)
    ]
    raw = [
        ChaosJob(f"prepares-{index}", _play({**held, "pack": "hold"}, prepared=False, gpus=1))
        for index in range(4)
    ]
    crash = _play({"worker": "exit 1"}, limit=1)
    return [*plain, *gangs, *raw, ChaosJob("crashes", crash, crashes=True)]


def _play(
    behaviour: dict[str, str],
    *,
    prepared: bool = True,
    gang: str = "Timeout",
    gpus: int = 0,
    limit: int = 1000,
) -> Manifest:
    workers: Manifest = {"replicas": 2, **({"gpus": gpus} if gpus else {})}
    policy = {"gang": gang, "scheduleTimeoutSeconds": 120}
    return played(
        behaviour=behaviour,
        prepared=prepared,
        workers=workers,
        training={"image": IMAGE} if gpus else {},
        template={"tolerations": _AT_ONCE, "terminationGracePeriodSeconds": 2},
        run_policy={**_POLICY, "schedulingPolicy": policy, "backoffLimit": limit},
    )
