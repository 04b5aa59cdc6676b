"""One worker's training from the first word to the last, whatever the framework.

`worker` calls `train` with the framework. It joins the others, opens the data, finds the place to
go on from, trains, and leaves the result.
"""

import logging
import os
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from imagenet_spec.metrics import Phase, TimePhase
from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint.store import CheckpointStore, Identity, Position
from imagenet_workloads.data.worker_data import Data, TrainingData, shortened
from imagenet_workloads.environment import Environment
from imagenet_workloads.process.program import TERMINATED, write_termination_message
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry import events
from imagenet_workloads.telemetry.history import trained_before
from imagenet_workloads.telemetry.log import READABLE_NAME, EventLog, log_readably
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.checkpointer import Checkpointer
from imagenet_workloads.train.framework import Framework, UpdatePlan
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.ledger import Ledger, LedgerHead, Start
from imagenet_workloads.train.loop import TrainingLoop, TrainingOutcome
from imagenet_workloads.train.receipts import Launch, Receipts
from imagenet_workloads.train.reporter import Reporter, growth_reported
from imagenet_workloads.train.result import Result, labels, write_reading, write_result
from imagenet_workloads.train.resume import ResumePoint, find_resume_point
from imagenet_workloads.train.schedule import Schedule, scaled

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
        termination: Whether a signal has arrived.
        framework: that trains.
        strategy: that its command line names; empty if it is unknown.
    """

    options: Options
    environment: Environment
    store: CheckpointStore
    identity: Identity
    recorder: TrainingRecorder
    termination: Termination
    framework: Framework
    strategy: str = ""


def train(worker: Worker) -> int:
    """Train; return the exit code."""
    worker.framework.check()
    worker.recorder.time.enter(TimePhase.JOINING)
    group = worker.framework.join()
    worker.recorder.time.enter(TimePhase.STARTING)
    with tempfile.TemporaryDirectory(dir=worker.environment.scratch) as scratch:
        images = worker.options.optimizer.batch_size * group.workers
        accumulation_steps = max(-(-worker.options.optimizer.macrobatch_size // images), 1)
        data = worker.framework.open_data(accumulation_steps, Path(scratch))
        if batches := worker.options.data.max_batches:
            data = shortened(data, batches, accumulation_steps)
        with closing(data):
            if worker.options.data.test_io:
                _read(worker, group, data)
            elif not _train(worker, group, data, accumulation_steps):
                return TERMINATED
    worker.recorder.phase(Phase.ENDING)
    # Rank 0 comes here when its result is written: no worker ends well before.
    group.wait_for_all()
    group.close()
    return 0


def _read(worker: Worker, group: Group, data: Data) -> None:
    """`--test-io 1`: read an epoch without a network, and leave the speed as the result."""
    started_at = datetime.now(UTC)
    worker.recorder.phase(Phase.TRAINING)
    read = only_read(worker.framework, data, worker.options, group, worker.recorder.work)
    worker.recorder.reading(data.times)
    if group.rank == 0:
        result = _result(
            worker, group, data, ResumePoint(Position(0, 0)), TrainingOutcome(), started_at
        )
        write_reading(worker.store.attempt_folder, result, read, datetime.now(UTC))
    write_termination_message(events.to_line(read, time.time()))


def only_read(
    framework: Framework,
    data: Data,
    options: Options,
    group: Group,
    worked: Callable[[], None] = lambda: None,
) -> events.Read:
    """Read an epoch and measure how fast.

    Args:
        framework: that reads.
        data: what is read.
        options: the command line.
        group: the workers that read at the same time.
        worked: called after each batch.
    """
    every, size = options.output.disp_batches, options.optimizer.batch_size
    started = interval = time.monotonic()
    images = 0
    for number, batch in enumerate(data.training.epoch(0, 0), start=1):
        framework.wait_to_read(batch)
        worked()
        images += batch.images
        if number % every == 0:
            now = time.monotonic()
            _log.info("batch %d: %.1f images/s", number, every * size / (now - interval))
            interval = now
    read = events.Read(images, group.workers, images / (time.monotonic() - started))
    _log.info(read.sentence())
    return read


def _train(worker: Worker, group: Group, data: Data, accumulation_steps: int) -> bool:
    """Train, evaluate, leave the result; false when it left early instead."""
    started_at = datetime.now(UTC)
    epochs = worker.options.optimizer.num_epochs
    fit, resume_point = _get_ready(worker, group, data, accumulation_steps)
    with worker.termination.deferred():
        outcome = fit.run(resume_point.position, resume_point.first_image)
    if outcome.stopped or worker.termination.requested:
        return False
    if resume_point.position.epoch >= epochs:
        # An earlier attempt trained to the end and died before it could say so.
        outcome.validation = fit.validate(epochs - 1)
    if group.rank == 0:
        result = _result(worker, group, data, resume_point, outcome, started_at)
        result = replace(
            result,
            receipts=fit.checkpointer.receipts,
            checkpoint_stall=fit.checkpointer.stalls.mean,
        )
        worker.store.refuse_later_attempt()
        folder = worker.store.attempt_folder
        worker.recorder.phase(Phase.EXPORTING)
        with growth_reported(folder, worker.recorder.work):
            write_result(
                folder,
                result,
                fit.learner.export,
                labels(data.classes, data.class_words),
                datetime.now(UTC),
            )
        finished = result.finished()
        fit.reporter.write(finished)
        # For the status of the job: no sampler reaches this worker any more.
        write_termination_message(events.to_line(finished, time.time()))
    return True


def _get_ready(
    worker: Worker, group: Group, data: Data, accumulation_steps: int
) -> tuple[TrainingLoop, ResumePoint]:
    """Find where to go on, and give every rank the same to go on with."""
    options, batches = worker.options, data.training.batches_per_epoch
    worker.recorder.phase(Phase.RESUMING)
    resume_point = find_resume_point(
        options,
        worker.store,
        worker.identity,
        group,
        batches,
        accumulation_steps,
        worker.recorder.work,
        data.training.ordered_batch,
    )
    plan = _plan(options, group, batches, resume_point, accumulation_steps)
    learner = worker.framework.learner(data, resume_point, plan)
    log, furthest = None, 0.0
    if group.rank == 0:
        # Before this run's own log begins; a job's account of time is that of rank 0.
        furthest = trained_before(options.output.output, _identity(worker))
        log_readably(worker.store.attempt_folder / READABLE_NAME)
        log = EventLog(worker.store.attempt_folder)
    reporter = Reporter(
        worker.recorder,
        log,
        options.output.disp_batches,
        batches,
        listener=learner.note,
        trained_before=furthest,
        device="this GPU" if options.cluster.gpus else "this CPU",
    )
    _announce(worker, group, reporter, resume_point, batches)
    ledger = _open_ledger(worker, group, data.training, resume_point)
    checkpointer = Checkpointer(
        options.output,
        worker.store,
        learner,
        group,
        reporter,
        worker.termination,
        data.training,
        options.optimizer.num_epochs,
        _receipts(worker, group, resume_point, batches, accumulation_steps),
        ledger,
    )
    fit = TrainingLoop(
        epochs=options.optimizer.num_epochs,
        accumulation_steps=accumulation_steps,
        top_k=options.model.top_k,
        data=data,
        learner=learner,
        schedule=plan.schedule,
        group=group,
        checkpointer=checkpointer,
        reporter=reporter,
        termination=worker.termination,
        ledger=ledger,
    )
    return fit, resume_point


def _open_ledger(
    worker: Worker, group: Group, training: TrainingData, resume_point: ResumePoint
) -> Ledger | None:
    """Begin this worker's ledger; None if the images have no order, or all epochs are trained."""
    batch, position = training.ordered_batch, resume_point.position
    if batch is None or position.epoch >= worker.options.optimizer.num_epochs:
        return None
    head = LedgerHead(
        training=worker.identity.spec_hash,
        start=Start(position.epoch, max(position.batch * batch, resume_point.first_image)),
        worker=group.rank,
        workers=group.workers,
        images=training.images,
        seed=worker.options.cluster.seed,
    )
    # A checkpoint waits only for the ledgers of workers that sum their flags.
    return Ledger(worker.store.attempt_folder, head, at_once=not group.collective)


def _receipts(
    worker: Worker, group: Group, resume_point: ResumePoint, batches: int, accumulation_steps: int
) -> Receipts:
    receipts = Receipts(
        worker.options.cluster.seed,
        accumulation_steps,
        Launch(
            sys.argv[1:],
            group.workers,
            os.environ.get("OMP_NUM_THREADS"),
            int(os.environ.get("DMLC_NUM_SERVER") or 0),
        ),
        worker.environment.attempt or 0,
        batches,
    )
    if resume_point.continues and resume_point.folder is not None:
        receipts.go_on_from(resume_point.folder, resume_point.position)
    return receipts


def _plan(
    options: Options, group: Group, batches: int, resume_point: ResumePoint, accumulation_steps: int
) -> UpdatePlan:
    chosen = options.optimizer
    images = chosen.batch_size * group.images_divisor * accumulation_steps
    schedule = Schedule(
        peak=scaled(chosen.lr, chosen.lr_scaling, images, chosen.lr_scaling_base),
        updates_per_epoch=batches // accumulation_steps,
        epochs=chosen.num_epochs,
        warmup_epochs=chosen.warmup_epochs,
        warmup_strategy=chosen.warmup_strategy,
        decay=chosen.lr_step_epochs,
        factor=chosen.lr_factor,
        shape=chosen.lr_schedule,
        power=chosen.lr_power,
    )
    done = (
        resume_point.position.epoch * batches + resume_point.position.batch
    ) // accumulation_steps
    return UpdatePlan(accumulation_steps, images, schedule, done)


def _announce(
    worker: Worker, group: Group, reporter: Reporter, resume_point: ResumePoint, batches: int
) -> None:
    worker.recorder.plan(worker.options.optimizer.num_epochs, batches, group.rank)
    worker.recorder.position(resume_point.position.epoch, resume_point.position.batch)
    _log.info("rank %d of %d, process %d", group.rank, group.workers, os.getpid())
    reporter.write(
        events.Started(
            worker.environment.attempt or 0,
            group.workers,
            resume_point.position.epoch,
            resume_point.position.batch,
            resume_point.resumed_from,
            batches,
            _identity(worker),
        )
    )


def _identity(worker: Worker) -> str:
    return f"{worker.identity.job_uid}/{worker.identity.spec_hash}"


def _result(
    worker: Worker,
    group: Group,
    data: Data,
    resume_point: ResumePoint,
    outcome: TrainingOutcome,
    started_at: datetime,
) -> Result:
    options, environment = worker.options, worker.environment
    return Result(
        job=environment.job,
        uid=environment.job_uid,
        attempt=environment.attempt or 0,
        framework=worker.framework.name,
        strategy=worker.strategy,
        network=options.model.network,
        epochs=options.optimizer.num_epochs,
        workers=group.workers,
        validation=outcome.validation,
        images=outcome.images,
        images_per_second=outcome.images / outcome.seconds if outcome.seconds else None,
        inputs=data.inputs,
        dataset_key=data.key,
        resumed_from=resume_point.resumed_from,
        started_at=started_at,
        seconds=worker.recorder.time.seconds,
        measured=worker.recorder.measured,
        loop_cpu=worker.recorder.median_loop_cpu,
    )
