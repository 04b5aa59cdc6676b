"""One worker's training from the first word to the last, whatever the framework.

`worker` calls `train` with the framework. It joins the others, opens the data, finds the place to
go on from, trains, and leaves the result.
"""

import logging
import os
import tempfile
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from imagenet_workloads.checkpoint.store import CheckpointStore, Identity
from imagenet_workloads.commands.program import TERMINATED, write_termination_message
from imagenet_workloads.environment import Environment
from imagenet_workloads.telemetry import events
from imagenet_workloads.telemetry.log import READABLE_NAME, EventLog, log_readably
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train import start
from imagenet_workloads.train.data.interface import Data
from imagenet_workloads.train.fit import Fit, Outcome
from imagenet_workloads.train.keeper import Keeper
from imagenet_workloads.train.learner import Framework, Group, Learner, Plan
from imagenet_workloads.train.options import Options
from imagenet_workloads.train.reporter import Reporter
from imagenet_workloads.train.result import Result, write_result
from imagenet_workloads.train.schedule import Schedule, scaled
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
        framework: that trains.
    """

    options: Options
    environment: Environment
    store: CheckpointStore
    identity: Identity
    recorder: TrainingRecorder
    termination: Termination
    framework: Framework


def train(worker: Worker) -> int:
    """Train; return the exit code."""
    worker.framework.check()
    group = worker.framework.join()
    with tempfile.TemporaryDirectory(dir=worker.environment.scratch) as scratch:
        together = _batches_together(worker.options, group)
        data = worker.framework.open_data(together, Path(scratch))
        if worker.options.data.test_io:
            only_read(worker.framework, data, worker.options)
        elif not _train(worker, group, data, together):
            return TERMINATED
    # Rank 0 comes here when its result is written: no worker ends well before.
    group.wait_for_all()
    group.close()
    return 0


def only_read(framework: Framework, data: Data, options: Options) -> None:
    """`--test-io 1`: read an epoch and say how fast, without a network."""
    every, size = options.output.disp_batches, options.optimizer.batch_size
    started = interval = time.monotonic()
    for number, batch in enumerate(data.training.epoch(0, 0), start=1):
        framework.wait_to_read(batch)
        if number % every == 0:
            now = time.monotonic()
            _log.info("batch %d: %.1f images/s", number, every * size / (now - interval))
            interval = now
    images = data.training.batches_per_epoch * size
    _log.info("read %d images: %.1f images/s", images, images / (time.monotonic() - started))


def _train(worker: Worker, group: Group, data: Data, together: int) -> bool:
    """Train, evaluate, leave the result; false when it left early instead."""
    started_at = datetime.now(UTC)
    epochs = worker.options.optimizer.num_epochs
    fit, begin = _get_ready(worker, group, data, together)
    with worker.termination.deferred():
        outcome = fit.run(begin.position)
    if outcome.stopped or worker.termination.requested:
        return False
    if begin.position.epoch >= epochs:
        # An earlier attempt trained to the end and died before it could say so.
        outcome.validation = fit.validate(epochs - 1)
    if group.rank == 0:
        result = _result(worker, group, data, begin, outcome, started_at)
        worker.store.refuse_later_attempt()
        folder = worker.store.attempt_folder
        write_result(folder, result, fit.learner.export, data.classes, datetime.now(UTC))
        finished = _finished(result)
        fit.reporter.write(finished)
        # For the status of the job: nobody answers a sampler any more.
        write_termination_message(events.to_line(finished, time.time()))
    return True


def _get_ready(worker: Worker, group: Group, data: Data, together: int) -> tuple[Fit, start.Start]:
    """Find where to go on, and give every rank the same to go on with."""
    options, batches = worker.options, data.training.batches_per_epoch
    begin = start.find(options, worker.store, worker.identity, group, batches, together)
    plan = _plan(options, group, batches, begin, together)
    learner = worker.framework.learner(data, begin, plan)
    reporter = Reporter(
        worker.recorder,
        _open_log(worker, group),
        options.output.disp_batches,
        batches,
        listener=learner.note,
    )
    _announce(worker, group, reporter, begin, batches)
    fit = Fit(
        epochs=options.optimizer.num_epochs,
        together=together,
        top_k=options.model.top_k,
        data=data,
        learner=learner,
        schedule=plan.schedule,
        group=group,
        keeper=_keeper(worker, group, learner, reporter, batches),
        reporter=reporter,
        termination=worker.termination,
    )
    return fit, begin


def _keeper(
    worker: Worker, group: Group, learner: Learner, reporter: Reporter, batches: int
) -> Keeper:
    return Keeper(
        worker.options.output,
        worker.store,
        learner,
        group,
        reporter,
        worker.termination,
        batches,
        worker.options.optimizer.num_epochs,
    )


def _batches_together(options: Options, group: Group) -> int:
    step = options.optimizer.batch_size * group.workers
    return max(-(-options.optimizer.macrobatch_size // step), 1)


def _plan(options: Options, group: Group, batches: int, begin: start.Start, together: int) -> Plan:
    chosen = options.optimizer
    images = chosen.batch_size * group.images_divisor * together
    schedule = Schedule(
        peak=scaled(chosen.lr, chosen.lr_scaling, images, chosen.lr_scaling_base),
        updates_per_epoch=batches // together,
        epochs=chosen.num_epochs,
        warmup_epochs=chosen.warmup_epochs,
        warmup_strategy=chosen.warmup_strategy,
        decay=chosen.lr_step_epochs,
        factor=chosen.lr_factor,
    )
    done = (begin.position.epoch * batches + begin.position.batch) // together
    return Plan(together, images, schedule, done)


def _open_log(worker: Worker, group: Group) -> EventLog | None:
    if group.rank != 0:
        return None
    folder = worker.store.attempt_folder
    log_readably(folder / READABLE_NAME)
    return EventLog(folder)


def _announce(
    worker: Worker, group: Group, reporter: Reporter, begin: start.Start, batches: int
) -> None:
    worker.recorder.plan(worker.options.optimizer.num_epochs, batches, group.rank)
    worker.recorder.position(begin.position.epoch, begin.position.batch)
    _log.info("rank %d of %d, process %d", group.rank, group.workers, os.getpid())
    reporter.write(
        events.Started(
            worker.environment.attempt or 0,
            group.workers,
            begin.position.epoch,
            begin.position.batch,
            begin.resumed_from,
        )
    )


def _result(
    worker: Worker,
    group: Group,
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
        framework=worker.framework.name,
        network=options.model.network,
        epochs=options.optimizer.num_epochs,
        workers=group.workers,
        validation=outcome.validation,
        images=outcome.images,
        images_per_second=outcome.images / outcome.seconds if outcome.seconds else None,
        inputs=data.inputs,
        dataset_key=data.key,
        resumed_from=begin.resumed_from,
        started_at=started_at,
    )


def _finished(result: Result) -> events.Finished:
    epochs, speed, counts = result.epochs, result.images_per_second, result.validation
    if counts is None:
        return events.Finished(epochs, images_per_second=speed)
    return events.Finished(
        epochs, counts.accuracy(counts.top1), counts.accuracy(counts.top5), speed
    )
