"""How long checkpoints hold training up: the time above the median step of the steps they touch."""

from collections import deque
from statistics import median

# Steps without a checkpoint whose median is a usual step.
USUAL_STEPS = 100


class Stalls:
    """The stalls of this process's checkpoints, in seconds."""

    def __init__(self) -> None:
        self._usual = deque[float](maxlen=USUAL_STEPS)
        self._total, self._of_newest, self._checkpoints = 0.0, 0.0, 0

    def step(self, seconds: float, *, touched: bool) -> None:
        """Count a step, with what was saved after it.

        Args:
            seconds: that it took, without its wait for data.
            touched: whether a checkpoint or receipt was copied or written meanwhile.
        """
        if not touched:
            self._usual.append(seconds)
        elif self._usual:
            # Some steps are shorter than the median, too.
            self._of_newest += seconds - median(self._usual)

    def held(self, seconds: float) -> None:
        """Count time between two epochs in which training only saved."""
        self._of_newest += seconds

    def checkpoint(self) -> None:
        """Begin a checkpoint, to which the touched steps belong that follow."""
        self._total += max(0.0, self._of_newest)
        self._of_newest = 0.0
        self._checkpoints += 1

    @property
    def mean(self) -> float | None:
        """The seconds for each checkpoint; None before the first one."""
        if not self._checkpoints:
            return None
        return (self._total + max(0.0, self._of_newest)) / self._checkpoints
