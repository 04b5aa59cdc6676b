"""Learners of PyTorch in this process, and batches for them."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import torch
from torch import nn

from imagenet_workloads.commands.train import parse
from imagenet_workloads.data.inputs import Inputs, plain_inputs
from imagenet_workloads.data.worker_data import Batch
from imagenet_workloads.frameworks.pytorch import networks
from imagenet_workloads.frameworks.pytorch.compilation import CompileCache, CompiledNetwork
from imagenet_workloads.frameworks.pytorch.families import checkpoint_activations, initialize
from imagenet_workloads.frameworks.pytorch.learner import PyTorchLearner, StepOptions
from imagenet_workloads.frameworks.pytorch.optimizers import MovingAverage, Precision, Updater
from imagenet_workloads.frameworks.pytorch.strategies.single import Single
from imagenet_workloads.train.framework import UpdatePlan
from imagenet_workloads.train.group import Flags
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.schedule import Schedule

SHAPE, CLASSES = (3, 28, 28), 4
RESNET = NetworkRequest("resnet", 8, CLASSES, SHAPE)


def learner(
    request: NetworkRequest = RESNET,
    *arguments: str,
    compiled: Callable[[nn.Module], CompiledNetwork] | None = None,
    inputs: Inputs | None = None,
    cache: CompileCache | None = None,
) -> PyTorchLearner:
    """One whose network was drawn by the seed; 8 images make an update."""
    options = parse(["--framework", "PyTorch", "--network", request.network, *arguments])
    plan = UpdatePlan(1, 8, Schedule(0.1, 10, 1), 0)
    network: nn.Module = networks.build(request)
    initialize(options, network)
    network.to(memory_format=torch.channels_last)
    updater = Updater(options.optimizer, network, plan.schedule, Precision(options.model.dtype))
    decay = options.optimizer.ema_decay
    average = None if decay is None else MovingAverage(network, decay)
    backward_context: Callable[[], AbstractContextManager[None]] = nullcontext
    if options.model.activation_checkpointing:
        backward_context = checkpoint_activations(network, request.network)
    single = Single(torch.device("cpu"))
    return PyTorchLearner(
        network,
        request,
        updater,
        single,
        plan,
        inputs or plain_inputs(SHAPE),
        seed=0,
        step=StepOptions(
            options.optimizer.label_smoothing, average, compiled, backward_context, cache
        ),
    )


def batch(seed: int) -> Batch:
    """Random images of 4 classes."""
    random = np.random.default_rng(seed)
    images = torch.from_numpy(random.normal(size=(8, 28, 28, 3)).astype(np.float32))
    return Batch(images, torch.from_numpy(random.integers(0, CLASSES, 8)), 8)


def trained(steps: int, made: PyTorchLearner) -> PyTorchLearner:
    """Train a learner with a batch a step."""
    for step in range(steps):
        made.train(batch(step), True, Flags())
    return made


def differing(found: PyTorchLearner, expected: PyTorchLearner) -> list[str]:
    """Name the values that two learners do not share."""
    others = expected.network.state_dict()
    return [name for name, one in found.network.state_dict().items() if not one.equal(others[name])]
