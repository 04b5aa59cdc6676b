"""Opens the training and validation data of the command line for PyTorch, and imports it.

`data` reads and decodes, in the order of training. Channels are the last axis of images, which
the learner's layers prefer. For a GPU they are bytes, which it normalises itself; for the CPU the
decoders normalise them. The arrays share the memory of the batches, which is page-locked for a GPU.
"""

import logging
from collections.abc import Callable

import torch

from imagenet_spec.program.train import Options
from imagenet_workloads.data.batches import ImageBatch
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.layouts import Bytes, Layout, Normalized
from imagenet_workloads.data.ordered_data import open_ordered
from imagenet_workloads.data.synthetic_data import open_synthetic
from imagenet_workloads.data.worker_data import Data

_log = logging.getLogger(__name__)


def choose(
    options: Options, rank: int, ranks: int, accumulation_steps: int, device: torch.device
) -> Data:
    """Open the data; `accumulation_steps` batches make one update."""
    if options.data.benchmark:
        # One batch for all steps, so it stays on the device, as MXNet's does.
        def on_device(batch: ImageBatch) -> tuple[torch.Tensor, torch.Tensor]:
            images, labels = _to_tensors(batch)
            return images.to(device), labels

        return open_synthetic(
            options, rank, ranks, accumulation_steps, on_device, channels_first=False
        )

    def layout(inputs: Inputs) -> Layout:
        if device.type == "cuda":
            return Bytes()
        return Normalized(inputs.mean, inputs.std, channels_first=False)

    def share(memory: memoryview) -> Callable[[], None]:
        """Let a GPU copy from memory while the program goes on; return what ends it."""
        if device.type != "cuda" or not torch.cuda.is_available():
            return lambda: None
        runtime = torch.cuda.cudart()
        address = torch.frombuffer(memory, dtype=torch.uint8).data_ptr()
        try:
            torch.cuda.check_error(runtime.cudaHostRegister(address, len(memory), 0))
        except RuntimeError as error:
            # Copies are right without it, and slower.
            _log.warning(
                "the memory of batches cannot be page-locked, copies wait for it: %s", error
            )
            return lambda: None
        return lambda: torch.cuda.check_error(runtime.cudaHostUnregister(address))

    return open_ordered(options, rank, ranks, accumulation_steps, layout, _to_tensors, share)


def _to_tensors(batch: ImageBatch) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.from_numpy(batch.images), torch.from_numpy(batch.labels)
