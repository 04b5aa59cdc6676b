"""Opens the training and validation data of the command line for PyTorch, and imports it.

`reading` reads and decodes, in the order of training. Channels are the last axis of images, which
the learner's layers prefer. For a GPU they are bytes, which it normalises itself; for the CPU the
threads that decode normalise them. The arrays share the memory of the batches.
"""

from dataclasses import replace

import torch

from imagenet_workloads.reading.batches import ImageBatch
from imagenet_workloads.reading.decode import Pixels, Size
from imagenet_workloads.reading.layouts import Bytes, Layout, Normalized
from imagenet_workloads.reading.ordered_data import open_ordered
from imagenet_workloads.reading.synthetic_data import open_synthetic
from imagenet_workloads.train.data import Batch, Data
from imagenet_workloads.train.inputs import Inputs
from imagenet_workloads.train.options import Options


def choose(
    options: Options, rank: int, ranks: int, accumulation_steps: int, device: torch.device
) -> Data:
    """Open the data.

    Args:
        options: the command line.
        rank: this process's.
        ranks: the number of processes.
        accumulation_steps: batches per update.
        device: where the network is.

    Raises:
        InputError: no option names data, or it cannot be read.
    """
    if options.data.benchmark:
        # One batch for all steps, so it stays on the device, as MXNet's does.
        def on_device(batch: ImageBatch) -> Batch:
            made = _to_tensors(batch)
            return replace(made, data=made.data.to(device))

        return open_synthetic(
            options, rank, ranks, accumulation_steps, on_device, channels_first=False
        )

    def layout(inputs: Inputs) -> Layout:
        if device.type == "cuda":
            return PageLocked()
        return Normalized(inputs.mean, inputs.std, channels_first=False)

    return open_ordered(options, rank, ranks, accumulation_steps, layout, _to_tensors)


class PageLocked(Bytes):
    """Bytes in memory that a GPU copies from while the program goes on."""

    def allocate(self, images: int, size: Size, channels: int) -> Pixels:
        """Return memory without a value; PyTorch uses it again once it was copied."""
        memory = torch.empty(
            (images, *size, channels), dtype=torch.uint8, pin_memory=torch.cuda.is_available()
        )
        pixels: Pixels = memory.numpy()
        return pixels


def _to_tensors(batch: ImageBatch) -> Batch:
    images, labels = torch.from_numpy(batch.images), torch.from_numpy(batch.labels)
    return Batch(images, labels, batch.count, mixing=batch.mixing)
