"""The learning rate of every update, as a pure function of the update's number.

`trainer` makes one `Schedule` from the options. Import-light, because servers of MXNet unpickle it.
"""

import math
from dataclasses import dataclass

from imagenet_spec.program.kinds import Decay, PolynomialDecay


def scaled(rate: float, how: str, batch: int, base: int) -> float:
    """Adapt a rate chosen for batches of `base` images to `batch` images.

    `linear` is Goyal et al. 2017 (k times the batch, k times the rate), `sqrt` its root, `none`
    leaves it.
    """
    if how == "linear":
        return rate * batch / base
    if how == "sqrt":
        return rate * math.sqrt(batch / base)
    return rate


@dataclass(frozen=True)
class Schedule:
    """Warm-up to the peak, then decay.

    The position in epochs decides, never what happened before, so a resumed training continues at
    the decayed rate.

    Attributes:
        peak: the rate when the warm-up is over.
        updates_per_epoch: updates of the weights in an epoch.
        epochs: planned epochs.
        warmup_epochs: epochs of the warm-up, may be a fraction; 0 is none.
        warmup_strategy: `linear`, `power2` or `sqrt` rise from near 0; `lars` is flat, since the
            optimizer lbsgd adapts each layer itself.
        decay: when the rate falls; None is never.
        factor: what each step of a StepDecay multiplies it by.
        shape: `step` falls as `decay` says. `cosine` (Loshchilov and Hutter 2017, without restarts)
            and `polynomial` fall from the end of the warm-up to 0 at the end of the last epoch.
        power: of `polynomial`.
    """

    peak: float
    updates_per_epoch: int
    epochs: int
    warmup_epochs: float = 0.0
    warmup_strategy: str = "linear"
    decay: Decay | None = None
    factor: float = 0.1
    shape: str = "step"
    power: float = 2.0

    def __call__(self, update: int) -> float:
        """Return the rate of an update, counted from 0 over the whole training."""
        return self.peak * self._warmup(update) * self._decayed(update)

    @property
    def _warmup_updates(self) -> int:
        return round(self.warmup_epochs * self.updates_per_epoch)

    def _warmup(self, update: int) -> float:
        length = self._warmup_updates
        if update >= length or self.warmup_strategy == "lars":
            return 1.0
        done = (update + 1) / length
        return {"linear": done, "power2": done * done, "sqrt": math.sqrt(done)}[
            self.warmup_strategy
        ]

    def _decayed(self, update: int) -> float:
        if self.shape == "cosine":
            return (1.0 + math.cos(math.pi * self._done(update))) / 2
        if self.shape == "polynomial":
            return float((1.0 - self._done(update)) ** self.power)
        if self.decay is None:
            return 1.0
        if isinstance(self.decay, PolynomialDecay):
            done = min(update / (self.epochs * self.updates_per_epoch), 1.0)
            return float((1.0 - done) ** self.decay.power)
        epoch = update // self.updates_per_epoch
        return float(self.factor ** sum(1 for step in self.decay.epochs if step <= epoch))

    def _done(self, update: int) -> float:
        """Return the part, from 0 to 1, of the updates after the warm-up that are done."""
        begin, end = self._warmup_updates, self.epochs * self.updates_per_epoch
        return min(max(update - begin, 0) / max(end - begin, 1), 1.0)
