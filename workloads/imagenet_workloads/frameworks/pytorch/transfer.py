"""Copies images to the device that trains them. Imports PyTorch.

A GPU computes a step while the program asks for the next batch. It copies that one in a stream of
its own, so the copy does not wait for the step, nor the step for the copy. The memory that it
copies from is another batch's once an event of that stream has come.
"""

from collections.abc import Callable
from functools import partial

import torch


class Transfer:
    """Copies to one device."""

    def __init__(self, device: torch.device) -> None:
        """Take the device."""
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, images: torch.Tensor, waits: list[Callable[[], None]]) -> torch.Tensor:
        """Return images that what is computed from now on finds on the device.

        Args:
            images: in page-locked memory, if the device is a GPU.
            waits: gets what returns when they are copied, if they are copied later.
        """
        if self._stream is None or images.device == self._device:
            return images.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = images.to(self._device, non_blocking=True)
            waits.append(partial(self._wait, self._stream.record_event()))
        computing.wait_stream(self._stream)
        # Its memory belongs to the copying stream, which may use it again after this one.
        copied.record_stream(computing)
        return copied

    def _wait(self, event: torch.cuda.Event) -> None:
        # The thread that fills batches would take memory of the first GPU otherwise.
        with torch.cuda.device(self._device):
            event.synchronize()
