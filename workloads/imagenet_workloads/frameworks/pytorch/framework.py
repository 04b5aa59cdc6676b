"""Trains with PyTorch: device, strategy, data, and the learner made of them.

Implements the protocols of `train.framework`. Imports PyTorch.
"""

import logging
import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import torch

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.data.inputs import count_sizes
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.pytorch import compilation, networks, optimizers
from imagenet_workloads.frameworks.pytorch import data as datasets
from imagenet_workloads.frameworks.pytorch.checkpoint_files import (
    load_pretrained,
    restore,
    restore_average,
)
from imagenet_workloads.frameworks.pytorch.compilation import CompileCache, CompiledNetwork
from imagenet_workloads.frameworks.pytorch.description import DESCRIPTION
from imagenet_workloads.frameworks.pytorch.families import checkpoint_activations, initialize
from imagenet_workloads.frameworks.pytorch.learner import PyTorchLearner, StepOptions
from imagenet_workloads.frameworks.pytorch.optimizers import MovingAverage, Precision, Updater
from imagenet_workloads.frameworks.pytorch.strategies import Strategy, join
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.train import start
from imagenet_workloads.train.devices import (
    bfloat16_cpu_warning,
    bfloat16_gpu_warning,
    require_code,
)
from imagenet_workloads.train.framework import UpdatePlan
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint

_log = logging.getLogger(__name__)


def create(options: Options, rendezvous: Rendezvous, folder: Path, identity: Identity) -> "PyTorch":
    """Make the framework; `folder` is the attempt's, and `identity` the training's."""
    # The first optimizer imports torch._dynamo, for a second. So one is made before the wait.
    torch.optim.SGD([torch.zeros(1)], lr=0.1)
    return PyTorch(options, rendezvous, folder, identity)


class PyTorch:
    """PyTorch as a framework; implements `Framework`."""

    name = DESCRIPTION.name

    def __init__(
        self, options: Options, rendezvous: Rendezvous, folder: Path, identity: Identity
    ) -> None:
        self._options, self._rendezvous = options, rendezvous
        self._folder, self._identity = folder, identity

    def check(self) -> None:
        optimizers.check(self._options.optimizer)
        if self._options.cluster.deterministic:
            # cuBLAS reads it when the first GPU is taken.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
            torch.use_deterministic_algorithms(True)
        else:
            # Batches have few sizes, so cuDNN measures once for each which algorithm is fastest.
            torch.backends.cudnn.benchmark = True
        self._device = take_device(self._options.cluster.gpus)
        if self._options.model.dtype == "bfloat16" and (said := bfloat16_warning(self._device)):
            _log.warning(said)
        networks.require_sizes(self._options.model)
        if self._options.model.compile:
            compilation.require_compiler(self._device)

    def join(self) -> Strategy:
        cluster = self._options.cluster
        module = DESCRIPTION.strategies[DESCRIPTION.strategy_of(self._options)]
        with self._rendezvous.joining(cluster.join_timeout):
            self._strategy = join(module, self._device)
        return self._strategy

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        rank, workers = self._strategy.rank, self._strategy.workers
        return datasets.choose(self._options, rank, workers, accumulation_steps, self._device)

    def wait_to_read(self, batch: Batch) -> None:
        """Return at once: the images are in memory."""

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> PyTorchLearner:
        options, model = self._options, self._options.model
        request = NetworkRequest(
            model.network, model.num_layers, data.class_count, data.inputs.image_shape
        )
        # For the values of timm's networks, which `initialize` keeps.
        torch.manual_seed(options.cluster.seed)
        network = networks.build(request)
        # On the CPU, so that the values do not depend on the device.
        initialize(options, network)
        if resume_point.folder is None and (file := start.weights(options)) is not None:
            load_pretrained(file, network, request)
        network.to(self._device, memory_format=torch.channels_last)
        precision = Precision(model.dtype, self._device)
        updater = Updater(options.optimizer, network, plan.schedule, precision)
        restore(options, network, updater, resume_point)
        average = None
        if options.optimizer.ema_decay is not None:
            average = MovingAverage(network, options.optimizer.ema_decay)
            restore_average(average, resume_point)
        resumed = resume_point.folder if resume_point.continues else None
        certain = options.cluster.deterministic
        is_compiled = compilation.choose(model.compile, resumed, self._device, certain)
        cache = None
        if is_compiled and model.compile_cache:
            cache = CompileCache(self._folder, self._identity, self._device)
            cache.load()
        learner = PyTorchLearner(
            network,
            request,
            updater,
            self._strategy,
            plan,
            data.inputs,
            options.cluster.seed,
            StepOptions(
                options.optimizer.label_smoothing,
                average,
                partial(
                    CompiledNetwork,
                    is_required=bool(model.compile),
                    sizes=count_sizes(model),
                )
                if is_compiled
                else None,
                # After the average, which is a copy of the network.
                checkpoint_activations(network, model.network)
                if model.activation_checkpointing
                else nullcontext,
                cache,
                lacks_compiler=is_compiled is False,
            ),
        )
        if resume_point.folder is not None and resume_point.continues:
            learner.statistics.load(resume_point.folder)
        return learner


def bfloat16_warning(device: torch.device) -> str | None:
    """Warn that a device has no instructions for bfloat16; None if it has them."""
    if device.type == "cuda":
        name = torch.cuda.get_device_name(device)
        return bfloat16_gpu_warning(name, torch.cuda.get_device_capability(device))
    try:
        return bfloat16_cpu_warning(Path("/proc/cpuinfo").read_text(errors="replace"))
    except OSError:
        return None


def take_device(gpus: tuple[int, ...]) -> torch.device:
    """Return the GPU of --gpus, or the CPU.

    InputError: there are several, it does not exist, or PyTorch has no code for it.
    """
    if not gpus:
        return torch.device("cpu")
    if len(gpus) > 1:
        raise InputError(
            f"--gpus (workers.gpus): PyTorch gives each process one GPU, not {len(gpus)}; start a "
            "process for each GPU with imagenet-slots (processesPerWorker)"
        )
    seen = torch.cuda.device_count()
    if gpus[0] >= seen:
        raise InputError(
            f"--gpus (workers.gpus): there is no GPU {gpus[0]}, PyTorch sees {seen}; leave it out "
            "to train on the CPU"
        )
    device = torch.device("cuda", gpus[0])
    name, capability = torch.cuda.get_device_name(device), torch.cuda.get_device_capability(device)
    require_code(
        "this PyTorch",
        name,
        capability,
        torch.cuda.get_arch_list(),
        older="write --framework MXNet (framework: MXNet)",
        newer="use a newer PyTorch",
    )
    torch.cuda.set_device(device)
    return device
