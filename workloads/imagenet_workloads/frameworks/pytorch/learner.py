"""A module, its optimizer and a strategy: one training step, one prediction, on one device.

The gradient of a batch is that of its images' summed loss, divided by the images of an update.
DistributedDataParallel averages gradients over the processes, so that the loss is multiplied by
their number: the weights move by the mean over all images. The workers' flags are summed beside.
Implements `Learner`. Imports PyTorch.
"""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from imagenet_workloads.data.inputs import Inputs
from imagenet_workloads.data.sharding import seed_of
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.pytorch.averaging import MovingAverage
from imagenet_workloads.frameworks.pytorch.checkpoint_files import Snapshot, export
from imagenet_workloads.frameworks.pytorch.compilation import CompiledNetwork
from imagenet_workloads.frameworks.pytorch.compile_cache import CompileCache
from imagenet_workloads.frameworks.pytorch.gradients_ready import GradientsReady
from imagenet_workloads.frameworks.pytorch.mixing import mix_images, summed_loss
from imagenet_workloads.frameworks.pytorch.optimizers import Updater
from imagenet_workloads.frameworks.pytorch.strategies import Strategy
from imagenet_workloads.frameworks.pytorch.transfer import Transfer
from imagenet_workloads.telemetry import events
from imagenet_workloads.train.counts import check_labels
from imagenet_workloads.train.framework import Outputs, UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.moving_statistics import (
    DeviceStatistics,
    MovingStatistics,
    Rows,
)
from imagenet_workloads.train.networks import NetworkRequest


@dataclass(frozen=True)
class StepOptions:
    """What a step does besides gradients and an update.

    Attributes:
        smoothing: part of each label that all classes get alike.
        average: of the network's values, which is validated and exported; None without one.
        compiled: makes a network's compiled twin, which trains and validates; None without one.
        backward_context: surrounds the backward pass.
        cache: keeps compiled code; None without.
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
        """Take the network on the strategy's device, and its optimizer.

        Args:
            network: with the values to begin with.
            request: that it was built from.
            updater: of its weights.
            strategy: of the exchange.
            plan: of the updates.
            inputs: by which bytes are normalised.
            seed: of dropout.
            step: what a step also does.
        """
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
            DeviceStatistics(self._read_statistics, self._write_statistics, strategy.gather),
            strategy,
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

        Raises:
            InputError: a label is no class, with which a GPU could not be used any more.
        """
        check_labels(batch.label[: batch.images].numpy(), self._request.classes)
        counted = self._strategy.start_sum(flags.numbers()) if updates else None
        self._begin_step()
        if self._ready is not None:
            self._ready.begin()
        with nullcontext() if updates else self._strategy.accumulating():
            with self.updater.precision.autocast():
                scores = self._module(self._mixed(batch))[: batch.images]
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
        """Whether compiled code trains; None where it was not chosen."""
        if self._compiled is not None:
            return not self._compiled.fallback.is_taken
        return False if self._step.lacks_compiler else None

    def gradients_ready(self) -> float | None:
        """Return when the backward pass began to wait for the other processes."""
        return None if self._ready is None else self._ready.at()

    def settle(self) -> None:
        """Do nothing: `reading` reads and decodes in separate threads, beside the step."""

    def predict(self, batch: Batch) -> Outputs:
        """Classify a batch."""
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
        """Average BatchNorm's statistics over all processes, until the next step."""
        self.statistics.average()

    def snapshot(self) -> Snapshot:
        """Copy weights, statistics, their moving average, and the optimizer's arrays."""
        return Snapshot(
            self.network,
            self.updater,
            self.statistics.of_all,
            self.average,
            compiled=self.compiled,
        )

    def export(self, prefix: Path, epoch: int) -> Mapping[str, str]:
        """Write PREFIX-NNNN.safetensors."""
        return export(prefix, self._shown, epoch, self._request)

    def note(self, event: events.Event) -> None:
        """Write no logs beside those of the loop."""

    def _begin_step(self) -> None:
        """Draw dropout from the step's number, so that a resumed training draws the same."""
        self.statistics.restore_own()
        self.network.train()
        step = self._steps * self._strategy.workers + self._strategy.rank
        torch.manual_seed(seed_of(self._seed, self._updates, step))
        self._steps += 1

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
        """The network that is validated and exported."""
        return self.network if self.average is None else self.average.network

    def _mixed(self, batch: Batch) -> torch.Tensor:
        images = self._images(batch)
        return images if batch.mixing is None else mix_images(images, batch.mixing)

    def _images(self, batch: Batch) -> torch.Tensor:
        """Return normalised images, (images, channels, height, width), on the device."""
        images = self._transfer(batch.data, batch.waits).permute(0, 3, 1, 2)
        return images if images.is_floating_point() else (images - self._mean) / self._std


def _of_channels(
    values: tuple[float, float, float], inputs: Inputs, strategy: Strategy
) -> torch.Tensor:
    """Return values of the channels, (1, channels, 1, 1), on the strategy's device."""
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

    Args:
        probabilities: (images, classes).
        wanted: (images,), the right classes.
    """
    right = probabilities.gather(1, wanted.clamp(0, probabilities.shape[1] - 1)[:, None])
    # Not `probabilities > right`, which leaves NaN out.
    ahead = (~(probabilities <= right)).sum(1, dtype=torch.float32)
    alike = (probabilities == right).sum(1, dtype=torch.float32) - 1
    return torch.stack([right[:, 0], ahead, alike])
