"""How long checkpoints hold training up: the time above the median step of the steps they touch."""

from collections import deque
from statistics import median

# Steps without a checkpoint whose median is a usual step.
USUAL_STEPS = 100


class Stalls:
    """The stalls of this process's checkpoints, in seconds."""

    def __init__(self) -> None:
        self._usual = deque[float](maxlen=USUAL_STEPS)
        self._total, self._checkpoints = 0.0, 0

    def step(self, seconds: float, *, touched: bool) -> None:
        """Count a step, with what was saved after it.

        Args:
            seconds: that it took.
            touched: whether a checkpoint or receipt was copied or written meanwhile.
        """
        if not touched:
            self._usual.append(seconds)
        elif self._usual:
            self._total += max(0.0, seconds - median(self._usual))

    def checkpoint(self) -> None:
        """Count a checkpoint, with whose steps its stall comes."""
        self._checkpoints += 1

    @property
    def mean(self) -> float | None:
        """The seconds for each checkpoint; None before the first one."""
        return self._total / self._checkpoints if self._checkpoints else None
