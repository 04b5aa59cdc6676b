"""Copies images to the device that trains them. Imports PyTorch.

A GPU computes a step while the program asks for the next batch. It copies that one in a stream of
its own, so the copy does not wait for the step, nor the step for the copy. Of page-locked memory
PyTorch notes the stream that copies from it, and gives it to no one else before the end.
"""

import torch


class Transfer:
    """Copies to one device."""

    def __init__(self, device: torch.device) -> None:
        """Take the device."""
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return images that what is computed from now on finds on the device."""
        if self._stream is None or images.device == self._device:
            return images.to(self._device)
        computing = torch.cuda.current_stream(self._device)
        with torch.cuda.stream(self._stream):
            copied = images.to(self._device, non_blocking=True)
        computing.wait_stream(self._stream)
        # Its memory belongs to the copying stream, which may use it again after this one.
        copied.record_stream(computing)
        return copied
