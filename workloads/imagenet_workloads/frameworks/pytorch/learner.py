"""A module, its optimizer and a strategy: one training step, one prediction, on one device.

The gradient of a batch is that of its images' summed loss, divided by the images of an update.
DistributedDataParallel averages gradients over the processes, so that the loss is multiplied by
their number: the weights move by the mean over all images. The workers' flags are summed beside.
Implements `Learner`. Imports PyTorch.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from imagenet_spec import events
from imagenet_workloads.data.augmentation import Mixing
from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.order import seed_of
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.pytorch.checkpoint_files import (
    AVERAGE,
    WEIGHTS,
    Snapshot,
    export,
    read,
)
from imagenet_workloads.frameworks.pytorch.compilation import CompileCache, CompiledNetwork
from imagenet_workloads.frameworks.pytorch.optimizers import MovingAverage, Updater
from imagenet_workloads.frameworks.pytorch.strategies import Strategy
from imagenet_workloads.train.counts import check_labels
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.moving_statistics import MovingStatistics, Rows
from imagenet_workloads.train.networks import NetworkRequest


@dataclass(frozen=True)
class StepOptions:
    """What a step does besides gradients and an update.

    Attributes:
        smoothing: part of each label that all classes get alike.
        average: of the network's values, which is validated and exported; None without one.
        compiled: makes a network's compiled twin, which trains and validates; None without one.
        lacks_compiler: whether compiled code was chosen, and there is no compiler.
    """

    smoothing: float = 0.0
    average: MovingAverage | None = None
    compiled: Callable[[nn.Module], CompiledNetwork] | None = None
    backward_context: Callable[[], AbstractContextManager[None]] = nullcontext
    cache: CompileCache | None = None
    lacks_compiler: bool = False


class PyTorchLearner:
    """A network on this process's device."""

    def __init__(
        self,
        network: nn.Module,
        request: NetworkRequest,
        updater: Updater,
        strategy: Strategy,
        plan: UpdatePlan,
        inputs: Inputs,
        seed: int,
        step: StepOptions,
    ) -> None:
        self.network, self.updater = network, updater
        self._request, self._strategy, self._seed = request, strategy, seed
        self._step, self.average = step, step.average
        self._compiled = None if step.compiled is None else step.compiled(network)
        self._module = strategy.distribute(self._compiled or network)
        self._kept: set[tuple[bool, torch.Size]] = set()
        self._validated: nn.Module = self._compiled or network
        if self.average is not None:
            shown = self.average.network
            self._validated = shown
            if step.compiled is not None and self._compiled is not None:
                twin = step.compiled(shown)
                twin.fallback = self._compiled.fallback
                self._validated = twin
        self._updates, self._steps = plan.updates_done, 0
        self.statistics = MovingStatistics(
            self._read_statistics, self._write_statistics, strategy.gather, strategy
        )
        self._ready = GradientsReady(strategy.device) if strategy.workers > 1 else None
        self._transfer = Transfer(strategy.device)
        # With a scale, the update itself waits for the GPU.
        is_known = strategy.device.type == "cuda" and not updater.precision.scaler.is_enabled()
        self._computed = torch.cuda.Event() if is_known else None
        self._scale = strategy.workers / plan.images_per_update
        self._mean = _of_channels(inputs.mean, inputs, strategy)
        self._std = _of_channels(inputs.std, inputs, strategy)

    def train(self, batch: Batch, updates: bool, flags: Flags) -> tuple[Flags, Outputs]:
        """Compute gradients; with an update, average them over all processes, and move weights.

        InputError: a label is no class, with which a GPU could not be used any more.
        """
        check_labels(batch.label[: batch.images].numpy(), self._request.classes)
        counted = self._strategy.start_sum(flags.numbers()) if updates else None
        self.statistics.restore_own()
        self.network.train()
        # Dropout is drawn from the step's number, so that a resumed training draws the same.
        step = self._steps * self._strategy.workers + self._strategy.rank
        torch.manual_seed(seed_of(self._seed, self._updates, step))
        self._steps += 1
        if self._ready is not None:
            self._ready.begin()
        with nullcontext() if updates else self._strategy.accumulating():
            with self.updater.precision.autocast():
                images = self._images(batch)
                if batch.mixing is not None:
                    images = mix_images(images, batch.mixing)
                scores = self._module(images)[: batch.images]
            labels = batch.label.to(self._strategy.device, non_blocking=True)[: batch.images]
            loss = summed_loss(scores.float(), labels, self._step.smoothing, batch.mixing)
            if self._ready is not None and updates:
                self._ready.watch(loss)
            with self._step.backward_context():
                self.updater.backward(loss * self._scale)
        if counted is None:
            return Flags(), _outputs(scores, batch)
        if self._computed is not None:
            self._computed.record()
        self.updater.update(self._updates)
        if self.average is not None:
            self.average.update(self.network)
        # A GPU that has more to compute than this thread to launch is still in the backward pass.
        starved = None if self._computed is None else self._computed.query()
        self._keep_code(True, batch)
        self._updates, self._steps = self._updates + 1, 0
        flags_of_all = Flags.of(counted())
        return flags_of_all, replace(_outputs(scores, batch), starved=starved)

    @property
    def compiled(self) -> bool | None:
        if self._compiled is not None:
            return not self._compiled.fallback.is_taken
        return False if self._step.lacks_compiler else None

    def gradients_ready(self) -> float | None:
        return None if self._ready is None else self._ready.at()

    def settle(self) -> None:
        """Do nothing: `data` reads and decodes beside the step."""

    def predict(self, batch: Batch) -> Outputs:
        self._shown.eval()
        with torch.inference_mode():
            scores = self._validated(self._images(batch))[: batch.images]
        self._keep_code(False, batch)
        return _outputs(scores, batch)

    def _keep_code(self, training: bool, batch: Batch) -> None:
        """Save what the first pass of training, or of validation, has compiled for a size.

        The first worker's processes do, whose ranks are the numbers of their devices.
        """
        compiled = training, batch.data.shape
        if self._step.cache is None or compiled in self._kept:
            return
        self._kept.add(compiled)
        if self._strategy.rank == (self._strategy.device.index or 0):
            self._step.cache.save()

    def average_statistics(self) -> None:
        self.statistics.average()

    def snapshot(self) -> Snapshot:
        return Snapshot(
            self.network,
            self.updater,
            self.statistics.of_all,
            self.average,
            compiled=self.compiled,
        )

    def load(self, folder: Path) -> None:
        values, _ = read(folder / (WEIGHTS if self.average is None else AVERAGE))
        self._shown.load_state_dict(values)

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        return export(prefix, self._shown, epoch, self._request)

    def note(self, event: events.Event) -> None:
        """Write no logs beside those of the loop."""

    def _moving(self) -> list[torch.Tensor]:
        networks = [self.network, *([] if self.average is None else [self.average.network])]
        return [
            buffer
            for network in networks
            for buffer in network.buffers()
            if buffer.is_floating_point()
        ]

    def _read_statistics(self) -> Rows:
        # In one piece: each copy of its own would wait for the GPU.
        parts = [buffer.detach().flatten().float() for buffer in self._moving()]
        whole = torch.cat(parts) if parts else torch.empty(0)
        return np.array(whole.cpu().numpy())[None]

    def _write_statistics(self, rows: Rows) -> None:
        values = torch.tensor(rows[0]).to(self._strategy.device)
        buffers = self._moving()
        parts = values.split([buffer.numel() for buffer in buffers])
        with torch.no_grad():
            for buffer, part in zip(buffers, parts, strict=True):
                buffer.copy_(part.view_as(buffer))

    @property
    def _shown(self) -> nn.Module:
        return self.network if self.average is None else self.average.network

    def _images(self, batch: Batch) -> torch.Tensor:
        """Return normalised images, (images, channels, height, width), on the device."""
        images = self._transfer(batch.data, batch.waits).permute(0, 3, 1, 2)
        return images if images.is_floating_point() else (images - self._mean) / self._std


def _of_channels(
    values: tuple[float, float, float], inputs: Inputs, strategy: Strategy
) -> torch.Tensor:
    channels = inputs.image_shape[0]
    return torch.tensor(values[:channels], device=strategy.device).view(1, -1, 1, 1)


def _outputs(scores: torch.Tensor, batch: Batch) -> Outputs:
    """Return the outputs of a batch; a GPU copies them once it has computed them."""
    probabilities = functional.softmax(scores.detach().float(), dim=1)
    labels = batch.label[: batch.images].float()
    if not probabilities.is_cuda:
        return Outputs.of(probabilities.numpy(), labels.numpy())
    # From and into page-locked memory, so that this thread can go on meanwhile.
    wanted = labels.pin_memory().to(probabilities.device, non_blocking=True).long()
    found = standings(probabilities, wanted)
    copied = torch.empty(found.shape, pin_memory=True)
    copied.copy_(found, non_blocking=True)
    right, ahead, alike = copied.numpy()
    return Outputs(
        probabilities.shape[1],
        labels.numpy(),
        right,
        ahead,
        alike,
        lambda chosen: probabilities.cpu().numpy()[chosen],
        torch.cuda.current_stream().record_event().synchronize,
    )


def standings(probabilities: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
    """Return `right`, `ahead` and `alike` of `Outputs`, (3, images), on the device.

    `probabilities` are (images, classes); `wanted`, (images,), are the right classes.
    """
    right = probabilities.gather(1, wanted.clamp(0, probabilities.shape[1] - 1)[:, None])
    # Not `probabilities > right`, which leaves NaN out.
    ahead = (~(probabilities <= right)).sum(1, dtype=torch.float32)
    alike = (probabilities == right).sum(1, dtype=torch.float32) - 1
    return torch.stack([right[:, 0], ahead, alike])


class Transfer:
    """Copies images to the device that trains them.

    A GPU computes a step while the program asks for the next batch. It copies that one in a stream
    of its own, so the copy does not wait for the step, nor the step for the copy. The memory that
    it copies from is another batch's once an event of that stream has come.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device) if device.type == "cuda" else None

    def __call__(self, images: torch.Tensor, waits: list[Callable[[], None]]) -> torch.Tensor:
        """Return images that what is computed from now on finds on the device.

        For a GPU they come from page-locked memory. If they are copied later, `waits` gets what
        returns when they are copied.
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


class GradientsReady:
    """Notes when the backward pass of an update has computed the last gradient.

    DistributedDataParallel sends each bucket of gradients while the backward pass computes the
    next, and waits for all of them at the end of the pass. At that end PyTorch's autograd engine
    calls the functions that were queued during the pass, in their order. The one that is queued
    here, at the beginning of the pass, comes before the wait.

    A GPU computes after the program has gone on. There events of its stream note the time between
    the end of the step before and the last gradient, and `at` waits for the second. The exchange
    and the update come after it, so the GPU is busy while the next step is begun.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        if self._on_gpu:
            self._began = torch.cuda.Event(enable_timing=True)
            self._ended = torch.cuda.Event(enable_timing=True)
        self._began_at = 0.0
        self._noted_at: float | None = None

    def begin(self) -> None:
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


def mix_images(images: torch.Tensor, mixing: Mixing) -> torch.Tensor:
    """Mix each image with the next one; what is behind the mixed ones stays as it is.

    Images are (batch size, channels, height, width), normalised; `mixing` is of the first ones.
    """
    count = len(mixing.shares)
    rows, columns = (torch.arange(side, device=images.device) for side in images.shape[2:])
    boxes = torch.from_numpy(mixing.boxes).to(images.device, non_blocking=True)
    top, left, bottom, right = (edge.view(-1, 1, 1) for edge in boxes.unbind(1))
    in_rows = (rows.view(1, -1, 1) >= top) & (rows.view(1, -1, 1) < bottom)
    in_columns = (columns >= left) & (columns < right)
    is_cut = (bottom > top) & (right > left)
    shares = torch.from_numpy(mixing.shares).to(images.device, non_blocking=True).view(-1, 1, 1)
    own = torch.where(is_cut, (~(in_rows & in_columns)).float(), shares).unsqueeze(1)
    real = images[:count]
    return torch.cat((torch.lerp(real.roll(-1, 0), real, own), images[count:]))


def summed_loss(
    scores: torch.Tensor, labels: torch.Tensor, smoothing: float, mixing: Mixing | None
) -> torch.Tensor:
    """Sum the cross-entropy of `scores`, (images, classes), for `labels`, (images,).

    All classes get the part `smoothing` of each label alike (Szegedy et al. 2016).
    """
    if mixing is None:
        return functional.cross_entropy(scores, labels, reduction="sum", label_smoothing=smoothing)
    shares = torch.from_numpy(mixing.shares).to(scores.device, non_blocking=True)
    own, others = (
        functional.cross_entropy(scores, wanted, reduction="none", label_smoothing=smoothing)
        for wanted in (labels, labels.roll(-1))
    )
    return torch.lerp(others, own, shares).sum()
