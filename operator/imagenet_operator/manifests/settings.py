"""What the builders take from the operator's own configuration instead of from a job.

One value is made where a process begins (the operator's flags, imagenetctl's) and is passed to
every builder; the defaults are what the project itself publishes.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """The operator's configuration, as far as manifests show it.

    Attributes:
        image: Runs preparation, schedulers, servers and workers without GPUs.
        gpu_image: Runs workers with GPUs. It cannot run anything else: its MXNet does not import
            on a node without a GPU driver.
        gpu_resource: What a worker asks for to get a GPU.
        metrics_port: Where every pod serves its metrics.
        preparation_retries: How often a pod of a preparation Job may fail before the Job does.
            Failures that a retry would repeat are not retried, whatever this says.
        farewell_seconds: The grace of a pod that only has to stop.
        checkpoint_seconds: The grace of a worker, which may write a checkpoint in it.
    """

    image: str = "imagenet-workloads:0.1.0"
    gpu_image: str = "imagenet-workloads-cu112:0.1.0"
    gpu_resource: str = "nvidia.com/gpu"
    metrics_port: int = 9090
    preparation_retries: int = 6
    farewell_seconds: int = 5
    checkpoint_seconds: int = 30


DEFAULTS = Settings()
"""What the project publishes."""
