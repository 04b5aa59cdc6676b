"""The workers of a training, as one of them sees them; a framework's strategy implements it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class Flags:
    """What workers tell each other with an update.

    Attributes:
        save: write a checkpoint after it: true as soon as one worker wants that.
        stop: write a checkpoint after it and leave, likewise.
        synced: true once the ledgers of all workers are on the disk up to the newest checkpoint.
    """

    save: bool = False
    stop: bool = False
    synced: bool = False

    def numbers(self) -> list[int]:
        return [self.save, self.stop, not self.synced]

    @classmethod
    def of(cls, sums: Iterable[float]) -> Self:
        """Combine the sums of all workers' `numbers`."""
        save, stop, behind = (bool(number > 0) for number in sums)
        return cls(save, stop, not behind)


class Group(Protocol):
    """The workers of a training, as one of them sees them.

    Every method is called by all workers, in the same order, unless `collective` is false.

    Attributes:
        rank: of this worker, from 0; rank 0 reports and saves.
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


class Alone:
    """A worker without others; implements `Group`."""

    rank, workers, images_divisor = 0, 1, 1
    collective = True

    def broadcast_from_rank0(self, name: str, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def add(self, numbers: Sequence[int]) -> list[int]:
        return list(numbers)

    def gather(self, own: T) -> T:
        return own

    def wait_for_all(self) -> None:
        """Return at once."""

    def close(self) -> None:
        """Leave no one behind."""
