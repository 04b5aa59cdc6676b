"""What a framework gives to training, without a framework: a group of one, a learner, no data."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from imagenet_spec.events import Event
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.train.framework import Outputs, Snapshot
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.receipts import State


@dataclass
class Alone:
    """A group of one."""

    rank: int = 0
    workers: int = 1
    collective: bool = True
    images_divisor: int = 1

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def add(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def wait_for_all(self) -> None:
        pass

    def close(self) -> None:
        pass


class Weights:
    """Copied weights, of which there are none."""

    def save(self, folder: Path) -> None:
        (folder / "weights").write_bytes(b"")

    def state(self) -> State:
        return {"weights": {"w": np.zeros(2, np.float32)}}


class Learner:
    """A network without weights, which finds every image to be of its first class."""

    compiled: bool | None = None

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        return flags, self.predict(batch)

    def gradients_ready(self) -> float | None:
        return None

    def settle(self) -> None:
        pass

    def predict(self, batch: Batch) -> Outputs:
        labels = np.asarray(batch.label, np.float32)[: batch.images]
        probabilities = np.tile(np.eye(2, dtype=np.float32)[0], (batch.images, 1))
        return Outputs.of(probabilities, labels)

    def average_statistics(self) -> None:
        pass

    def snapshot(self) -> Snapshot:
        return Weights()

    def load(self, folder: Path) -> None:
        pass

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        file = prefix.with_name(f"{prefix.name}-{epoch:04}.params")
        file.write_bytes(b"")
        return {"params": file.name}

    def note(self, event: Event) -> None:
        pass


@dataclass
class Images:
    """95 training images in 10 batches, of which none is read."""

    ordered_batch: int | None = None
    batches_per_epoch: int = 10
    images: int = 95

    def epoch(
        self,
        number: int,
        first_batch: int,
        passed: Callable[[], None] = lambda: None,
        first_image: int = 0,
    ) -> Iterator[Batch]:
        return iter(())


class Zeros:
    """Images of the first class, in batches of 4, of which the last has 2 of padding."""

    def __init__(self, images: int = 10) -> None:
        self.images = images

    def batches(self, rank: int, ranks: int) -> Iterator[Batch]:
        for images in (4, 4, 2):
            yield Batch(None, np.zeros(4, np.float32), images)
