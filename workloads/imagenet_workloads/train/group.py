"""The workers of a training, as one of them sees them; a framework's strategy implements it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Flags:
    """What workers want to happen after the update in progress; true as soon as one wants it.

    Attributes:
        save: write a checkpoint.
        stop: write a checkpoint and leave.
    """

    save: bool = False
    stop: bool = False


class Group(Protocol):
    """The workers of a training, as one of them sees them.

    Every method is called by all workers, in the same order, unless `collective` is false.

    Attributes:
        rank: of this worker, from 0; rank 0 reports and saves.
        workers: how many there are.
        collective: whether workers keep in step and can add up numbers; if not, `add` may not be
            called, rank 0 evaluates and saves alone, and flags are its own.
        images_divisor: by how many workers' batches the sum of gradients in an update is made.
    """

    rank: int
    workers: int
    collective: bool
    images_divisor: int

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        """Give rank 0's whole numbers (0 to 2^60 - 1) to every rank; a name is used once."""

    def add(self, numbers: Sequence[int]) -> list[int]:
        """Add whole numbers up over the workers, exactly."""

    def wait_for_all(self) -> None:
        """Return when every worker has come here."""

    def close(self) -> None:
        """Leave in good order; every worker closes."""
