"""One worker's training from the first word to the last; the first module that imports MXNet.

`worker` calls `train` when MXNet may start. It joins the others, opens the data, builds the
network, finds the place to go on from, trains, and leaves the result.
"""

import logging
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import mxnet as mx
import numpy as np

from imagenet_workloads.checkpoint.store import CheckpointStore, Identity
from imagenet_workloads.commands.program import TERMINATED
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.telemetry import events
from imagenet_workloads.telemetry.log import READABLE_NAME, EventLog, log_readably
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train import networks, optimizer, start
from imagenet_workloads.train.counts import Counts
from imagenet_workloads.train.data.choose import Data, choose
from imagenet_workloads.train.data.interface import TrainingData
from imagenet_workloads.train.fit import Fit, Outcome
from imagenet_workloads.train.keeper import Keeper
from imagenet_workloads.train.networks.request import Request
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.replicas import Replicas
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.result import Result, write_result
from imagenet_workloads.train.schedule import ByUpdate, Schedule, scaled
from imagenet_workloads.train.strategies.interface import Strategy
from imagenet_workloads.train.termination import Termination

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """What a worker has before it knows the others.

    Attributes:
        options: the command line.
        environment: the pod's.
        store: of checkpoints.
        identity: of this training's checkpoints.
        recorder: of metrics.
        termination: whether it was told to end.
    """

    options: Options
    environment: Environment
    store: CheckpointStore
    identity: Identity
    recorder: TrainingRecorder
    termination: Termination


def train(worker: Worker, join: Callable[[], Strategy]) -> int:
    """Train; return the exit code.

    Args:
        worker: this one.
        join: makes the strategy, which means to wait for the others.
    """
    _check_devices(worker.options)
    strategy = join()
    # Each rank drops out others; the weights that count are drawn by rank 0.
    mx.random.seed(worker.options.cluster.seed + strategy.rank)
    np.random.seed(worker.options.cluster.seed + strategy.rank)
    with tempfile.TemporaryDirectory(dir=worker.environment.scratch) as scratch:
        together = _batches_together(worker.options, strategy)
        data = choose(worker.options, strategy.rank, strategy.workers, together, Path(scratch))
        if worker.options.data.test_io:
            only_read(data.training, worker.options)
        elif not _train(worker, strategy, data, together):
            return TERMINATED
    # Rank 0 comes here when its result is written: no worker ends well before.
    strategy.wait_for_all()
    strategy.close()
    return 0


def only_read(data: TrainingData, options: Options) -> None:
    """`--test-io 1`: read an epoch and say how fast, without a network."""
    every, size = options.output.disp_batches, options.optimizer.batch_size
    started = interval = time.monotonic()
    for number, batch in enumerate(data.epoch(0, 0), start=1):
        batch.data.wait_to_read()
        if number % every == 0:
            now = time.monotonic()
            _log.info("batch %d: %.1f images/s", number, every * size / (now - interval))
            interval = now
    images = data.batches_per_epoch * size
    _log.info("read %d images: %.1f images/s", images, images / (time.monotonic() - started))


def _train(worker: Worker, strategy: Strategy, data: Data, together: int) -> bool:
    """Train, evaluate, leave the result; false when it left early instead."""
    started_at = datetime.now(UTC)
    epochs = worker.options.optimizer.num_epochs
    fit, begin = _get_ready(worker, strategy, data, together)
    with worker.termination.deferred():
        outcome = fit.run(begin.position)
    if outcome.stopped or worker.termination.requested:
        return False
    if begin.position.epoch >= epochs:
        # An earlier attempt trained to the end and died before it could say so.
        outcome.validation = fit.validate(epochs - 1)
    if strategy.rank == 0:
        result = _result(worker, strategy, data, begin, outcome, started_at)
        worker.store.refuse_later_attempt()
        folder = worker.store.attempt_folder
        write_result(folder, result, fit.replicas, data.classes, datetime.now(UTC))
        fit.reporter.write(_finished(epochs, outcome.validation))
    return True


def _get_ready(
    worker: Worker, strategy: Strategy, data: Data, together: int
) -> tuple[Fit, start.Start]:
    """Build the network, find where to go on, and give every rank the same to go on with."""
    options, batches = worker.options, data.training.batches_per_epoch
    replicas = _replicas(options, data, together)
    schedule = _schedule(options, strategy, data, together)
    begin = start.find(options, worker.store, worker.identity, strategy, batches, together)
    start.prepare(options, replicas, begin)
    updates = (begin.position.epoch * batches + begin.position.batch) // together
    strategy.start(replicas, _optimizer(options, strategy, replicas, schedule, updates, together))
    start.restore_optimizer(strategy, begin)
    reporter = Reporter(
        worker.recorder, _open_log(worker, strategy), options.output.disp_batches, batches
    )
    _announce(worker, strategy, reporter, begin, batches)
    epochs = options.optimizer.num_epochs
    keeper = Keeper(
        options.output,
        worker.store,
        replicas,
        strategy,
        reporter,
        worker.termination,
        batches,
        epochs,
    )
    fit = Fit(
        epochs,
        together,
        options.model.top_k,
        data,
        replicas,
        schedule,
        strategy,
        keeper,
        reporter,
        worker.termination,
        _monitor(options, replicas),
    )
    return fit, begin


def _check_devices(options: Options) -> None:
    seen = mx.context.num_gpus()
    missing = [number for number in options.cluster.gpus if number >= seen]
    if missing:
        raise InputError(
            f"--gpus: there is no GPU {missing[0]}, MXNet sees {seen}; leave the option out to "
            "train on the CPU"
        )


def _batches_together(options: Options, strategy: Strategy) -> int:
    step = options.optimizer.batch_size * strategy.workers
    return max(-(-options.optimizer.macrobatch_size // step), 1)


def _replicas(options: Options, data: Data, together: int) -> Replicas:
    model = options.model
    request = Request(
        model.network, model.num_layers, data.class_count, model.image_shape, model.dtype
    )
    contexts = [mx.gpu(number) for number in options.cluster.gpus] or [mx.cpu()]
    return Replicas(
        networks.build(request),
        contexts,
        options.optimizer.batch_size,
        model.image_shape,
        accumulate=together > 1,
    )


def _schedule(options: Options, strategy: Strategy, data: Data, together: int) -> Schedule:
    chosen = options.optimizer
    batch = chosen.batch_size * strategy.images_divisor * together
    return Schedule(
        peak=scaled(chosen.lr, chosen.lr_scaling, batch, chosen.lr_scaling_base),
        updates_per_epoch=data.training.batches_per_epoch // together,
        epochs=chosen.num_epochs,
        warmup_epochs=chosen.warmup_epochs,
        warmup_strategy=chosen.warmup_strategy,
        decay=chosen.lr_step_epochs,
        factor=chosen.lr_factor,
    )


def _optimizer(
    options: Options,
    strategy: Strategy,
    replicas: Replicas,
    schedule: Schedule,
    updates: int,
    together: int,
) -> mx.optimizer.Optimizer:
    # Where each worker's push is an update of its own, MXNet counts all of them.
    pushes = strategy.workers // strategy.images_divisor
    return optimizer.create(
        options.optimizer,
        replicas,
        ByUpdate(schedule, pushes),
        options.optimizer.batch_size * strategy.images_divisor * together,
        updates * pushes,
    )


def _open_log(worker: Worker, strategy: Strategy) -> EventLog | None:
    if strategy.rank != 0:
        return None
    folder = worker.store.attempt_folder
    log_readably(folder / READABLE_NAME)
    return EventLog(folder)


def _announce(
    worker: Worker, strategy: Strategy, reporter: Reporter, begin: start.Start, batches: int
) -> None:
    worker.recorder.plan(worker.options.optimizer.num_epochs, batches, strategy.rank)
    worker.recorder.position(begin.position.epoch, begin.position.batch)
    _log.info("rank %d of %d, process %d", strategy.rank, strategy.workers, os.getpid())
    reporter.write(
        events.Started(
            worker.environment.attempt or 0,
            strategy.workers,
            begin.position.epoch,
            begin.position.batch,
            begin.resumed_from,
        )
    )


def _monitor(options: Options, replicas: Replicas) -> mx.mon.Monitor | None:
    if not options.output.monitor:
        return None
    monitor = mx.mon.Monitor(options.output.monitor, pattern=".*")
    replicas.watch(monitor)
    return monitor


def _result(
    worker: Worker,
    strategy: Strategy,
    data: Data,
    begin: start.Start,
    outcome: Outcome,
    started_at: datetime,
) -> Result:
    options, environment = worker.options, worker.environment
    return Result(
        job=environment.job,
        uid=environment.job_uid,
        attempt=environment.attempt or 0,
        network=options.model.network,
        epochs=options.optimizer.num_epochs,
        workers=strategy.workers,
        validation=outcome.validation,
        images=outcome.images,
        images_per_second=outcome.images / outcome.seconds if outcome.seconds else None,
        inputs=data.inputs,
        dataset_key=data.key,
        resumed_from=begin.resumed_from,
        started_at=started_at,
    )


def _finished(epochs: int, validation: Counts | None) -> events.Finished:
    if validation is None:
        return events.Finished(epochs)
    return events.Finished(
        epochs, validation.accuracy(validation.top1), validation.accuracy(validation.top5)
    )
