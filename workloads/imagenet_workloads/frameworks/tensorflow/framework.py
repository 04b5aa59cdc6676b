"""Trains with TensorFlow: devices, strategy, data, and the learner made of them.

Implements the protocols of `train.framework`. Imports TensorFlow.
"""

import logging
import os
from pathlib import Path

import numpy as np
import tensorflow as tf

from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import Identity
from imagenet_workloads.data.worker_data import Batch, Data
from imagenet_workloads.errors import InputError
from imagenet_workloads.frameworks.tensorflow import networks, optimizers
from imagenet_workloads.frameworks.tensorflow.checkpoint_files import restore
from imagenet_workloads.frameworks.tensorflow.data import choose
from imagenet_workloads.frameworks.tensorflow.families import initialize
from imagenet_workloads.frameworks.tensorflow.learner import TensorFlowLearner
from imagenet_workloads.frameworks.tensorflow.strategies import Strategy, join
from imagenet_workloads.frameworks.tensorflow.tables import Tables
from imagenet_workloads.frameworks.tensorflow.weights import named
from imagenet_workloads.rendezvous import Rendezvous
from imagenet_workloads.train.devices import require_code
from imagenet_workloads.train.framework import UpdatePlan
from imagenet_workloads.train.networks import NetworkRequest
from imagenet_workloads.train.resume import ResumePoint


def create(
    options: Options, rendezvous: Rendezvous, folder: Path, identity: Identity
) -> "TensorFlow":
    """Make the framework; `folder` is the attempt's, and `identity` the training's."""
    return TensorFlow(options, rendezvous, folder)


class TensorFlow:
    """TensorFlow as a framework; implements `Framework`."""

    name = "TensorFlow"

    def __init__(self, options: Options, rendezvous: Rendezvous, folder: Path) -> None:
        self._options, self._rendezvous, self._folder = options, rendezvous, folder

    def check(self) -> None:
        optimizers.check(self._options.optimizer)
        take_devices(self._options.cluster.gpus)
        if self._options.cluster.deterministic:
            tf.config.experimental.enable_op_determinism()
            # One buffer for each gradient: its place in a common one depends on the time.
            os.environ["HOROVOD_FUSION_THRESHOLD"] = "0"

    def join(self) -> Strategy:
        cluster = self._options.cluster
        with self._rendezvous.joining(cluster.join_timeout):
            self._strategy = join(cluster.distribution_strategy)
        seed = cluster.seed + self._strategy.rank
        tf.random.set_seed(seed)
        np.random.seed(seed)
        return self._strategy

    def open_data(self, accumulation_steps: int, scratch: Path) -> Data:
        return choose(
            self._options, self._strategy.rank, self._strategy.workers, accumulation_steps
        )

    def wait_to_read(self, batch: Batch) -> None:
        batch.data.numpy()

    def learner(self, data: Data, resume_point: ResumePoint, plan: UpdatePlan) -> TensorFlowLearner:
        options, strategy, model = self._options, self._strategy, self._options.model
        request = NetworkRequest(
            model.network, model.num_layers, data.class_count, model.image_shape, model.dtype
        )
        tables = None
        if strategy.rank == 0:
            tables = Tables(self._folder, data.training.batches_per_epoch, strategy.workers)
        with strategy.distribution.scope():
            network = networks.build(request)
            learner = TensorFlowLearner(
                network,
                optimizers.create(options.optimizer, named(network)[0]),
                strategy,
                plan,
                tables,
                options.cluster.seed,
                options.optimizer.label_smoothing,
            )
            if not restore(options, network, learner.optimizer, resume_point):
                initialize(options, network)
        strategy.broadcast([*network.variables, *learner.optimizer.variables])
        if resume_point.folder is not None and resume_point.continues:
            learner.moving_statistics.load(resume_point.folder)
        return learner


def take_devices(gpus: tuple[int, ...]) -> None:
    """Limit TensorFlow to the GPUs of --gpus and to the threads of its options.

    InputError: a GPU does not exist, or TensorFlow has no code for it.
    """
    seen = tf.config.list_physical_devices("GPU")
    missing = [number for number in gpus if number >= len(seen)]
    if missing:
        raise InputError(
            f"--gpus (workers.gpus): there is no GPU {missing[0]}, TensorFlow sees {len(seen)}; "
            "leave it out to train on the CPU"
        )
    for number in gpus:
        # TensorFlow ignores a GPU that is too old, and would train on the CPU. One without a
        # description passes, and so does a build that does not list its code.
        found = tf.config.experimental.get_device_details(seen[number])
        code = tf.sysconfig.get_build_info().get("cuda_compute_capabilities")
        if code and "compute_capability" in found:
            require_code(
                "this TensorFlow",
                found.get("device_name", seen[number].name),
                found["compute_capability"],
                code,
                older="use a newer GPU",
                newer="write --framework PyTorch (framework: PyTorch)",
            )
    # Not in the training's log.
    tf.get_logger().handlers.clear()
    for logger in (tf.get_logger(), logging.getLogger("absl")):
        logger.setLevel(logging.WARNING)
    tf.config.set_visible_devices([seen[number] for number in gpus], "GPU")
    cores = os.environ.get("OMP_NUM_THREADS", "")
    if cores.isdecimal() and int(cores):
        tf.config.threading.set_intra_op_parallelism_threads(int(cores))
