"""When the gradients of a process are ready, before it waits for those of the others.

DistributedDataParallel sends each bucket of gradients while the backward pass computes the next,
and waits for all of them at the end of the pass. At that end PyTorch's autograd engine calls the
functions that were queued during the pass, in their order. The one that is queued here, at the
beginning of the pass, comes before the wait. Imports PyTorch.
"""

import time

import torch


class GradientsReady:
    """Notes when the backward pass of an update has computed the last gradient.

    A GPU computes after the program has gone on. There events of its stream note the time between
    the end of the step before and the last gradient, and `at` waits for the second. The exchange
    and the update come after it, so the GPU is busy while the next step is begun.
    """

    def __init__(self, device: torch.device) -> None:
        """Take the device of the network."""
        self._on_gpu = device.type == "cuda"
        if self._on_gpu:
            self._began = torch.cuda.Event(enable_timing=True)
            self._ended = torch.cuda.Event(enable_timing=True)
        self._began_at = 0.0
        self._noted_at: float | None = None

    def begin(self) -> None:
        """Begin a step."""
        self._noted_at = None
        if self._on_gpu:
            self._began_at = time.monotonic()
            self._began.record()

    def watch(self, loss: torch.Tensor) -> None:
        """Note when the gradients of a loss are ready; its backward pass follows."""
        loss.register_hook(self._queue)

    def at(self) -> float | None:
        """Return when they were, by time.monotonic; None for a step without `watch`."""
        if self._noted_at is None or not self._on_gpu:
            return self._noted_at
        self._ended.synchronize()
        milliseconds: float = self._began.elapsed_time(self._ended)
        return self._began_at + milliseconds / 1000

    def _queue(self, gradient: torch.Tensor) -> None:
        torch.autograd.Variable._execution_engine.queue_callback(self._note)

    def _note(self) -> None:
        self._noted_at = time.monotonic()
        if self._on_gpu:
            self._ended.record()
