"""The three jobs of `imagenetctl bench`, and which of reading and network limits training."""

from __future__ import annotations

from dataclasses import dataclass

from imagenet_operator.api.base import Manifest
from imagenet_operator.scaling.points import fitting_name, shared_claim

READING, NETWORK, BOTH = "reading", "network", "both"
RUNS = (READING, NETWORK, BOTH)
"""What a run measures: reading alone, training on random images in memory, training as it is."""

EPOCHS = 2
"""Epochs of a run that trains. The first one is the warm-up."""

CLOSE = 0.1
"""Speeds that differ by less than this fraction of the faster one are equal."""

_OPTIONS = {READING: ["--test-io", "1"], NETWORK: ["--benchmark", "1"], BOTH: []}
_OF_MANY_EPOCHS = {
    "optimizer": ("stepEpochs", "warmupEpochs"),
    "augmentation": ("offInLastEpochs",),
}


@dataclass(frozen=True)
class Speeds:
    """The speed of each run, in images/s over all workers.

    Attributes:
        reading: Reading, decoding and augmenting, without a network.
        network: Training on random images in memory.
        both: Training on the dataset.
    """

    reading: float
    network: float
    both: float


@dataclass(frozen=True)
class Verdict:
    """Which part limits training.

    Attributes:
        bottleneck: `reading`, `network`, or None if both are about as fast.
        sentence: The same in words.
    """

    bottleneck: str | None
    sentence: str


def judge(speeds: Speeds) -> Verdict:
    """Return the slower of reading and network as the bottleneck."""
    reading, network = speeds.reading, speeds.network
    figures = f"reading gives {reading:,.0f} images/s, the network takes {network:,.0f}"
    if abs(reading - network) < CLOSE * max(reading, network):
        return Verdict(
            None, f"Neither is the bottleneck: {figures}, which differ by less than 10 %."
        )
    if reading < network:
        waits = round(100 * (1 - reading / network))
        return Verdict(
            READING,
            f"Reading is the bottleneck: {figures}, so the network waits at least {waits} % "
            "of the time.",
        )
    return Verdict(NETWORK, f"The network is the bottleneck: {figures}.")


def job_name(base: str, run: str) -> str:
    """Return the name of a run's job, such as NAME-bench-reading, shortened if it is too long."""
    return fitting_name(base, f"-bench-{run}", f"-{{digest}}-bench-{run}")


def job_of(manifest: Manifest, run: str, batches: int) -> Manifest:
    """Return the job of a run: the manifest with few batches, on the dataset of all runs.

    Args:
        manifest: A valid job.
        run: One of `RUNS`.
        batches: The batches of an epoch.
    """
    metadata, spec = manifest["metadata"], manifest["spec"]
    training = spec["training"]
    options = [*training.get("extraArgs", []), *_OPTIONS[run], "--max-batches", str(batches)]
    shorter = {
        field: {name: value for name, value in training[field].items() if name not in names}
        for field, names in _OF_MANY_EPOCHS.items()
        if field in training
    }
    if "optimizer" in training:
        shorter["optimizer"]["stepEpochs"] = []
    claim = shared_claim(manifest)
    volume = {} if claim is None else {"volume": {"claimName": claim}}
    changed = {
        "dataset": spec["dataset"] | volume,
        "training": training | shorter | {"epochs": EPOCHS, "extraArgs": options},
    }
    name = {"name": job_name(metadata["name"], run)}
    return manifest | {"metadata": metadata | name, "spec": spec | changed}
