"""One worker's training from the first word to the last, whatever the framework.

`worker` calls `train` with the framework. It joins the others, opens the data, finds the place to
go on from, trains, and leaves the result.
"""

import logging
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from imagenet_spec import events
from imagenet_spec.metrics import Phase, TimePhase
from imagenet_spec.names import READABLE_LOG, VERSION
from imagenet_spec.program.train import Options
from imagenet_workloads.checkpoint import CheckpointStore, Identity, Position
from imagenet_workloads.data.worker_data import Data, TrainingData, shortened
from imagenet_workloads.environment import Environment
from imagenet_workloads.errors import InputError
from imagenet_workloads.process.program import TERMINATED, write_termination_message
from imagenet_workloads.process.termination import Termination
from imagenet_workloads.telemetry.event_log import (
    EventLog,
    log_readably,
    runs_of,
    trained_before,
)
from imagenet_workloads.telemetry.training import TrainingRecorder
from imagenet_workloads.train.checkpointer import Checkpointer
from imagenet_workloads.train.evaluation import write_evaluation
from imagenet_workloads.train.framework import Framework, UpdatePlan
from imagenet_workloads.train.group import Group
from imagenet_workloads.train.ledger import Ledger, LedgerHead, Start
from imagenet_workloads.train.loop import TrainingLoop, TrainingOutcome
from imagenet_workloads.train.model_card import Origin, model_card, write_card
from imagenet_workloads.train.predictions import gather
from imagenet_workloads.train.receipts import Launch, Receipts
from imagenet_workloads.train.reporter import Reporter, growth_reported
from imagenet_workloads.train.result import Result, labels, write_reading, write_result
from imagenet_workloads.train.resume import ResumePoint, find_resume_point
from imagenet_workloads.train.schedule import Schedule, scaled
from imagenet_workloads.train.validation_history import ValidationHistory, by_merit

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """What a worker has before it knows the others; no name of the strategy if it is unknown.

    `versions` returns those of the framework's libraries, by name.
    """

    options: Options
    environment: Environment
    store: CheckpointStore
    identity: Identity
    recorder: TrainingRecorder
    termination: Termination
    framework: Framework
    strategy: str = ""
    versions: Callable[[], Mapping[str, str]] = dict


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
    every, size = worker.options.output.disp_batches, worker.options.optimizer.batch_size
    started = interval = time.monotonic()
    images = 0
    for number, batch in enumerate(data.training.epoch(0, 0), start=1):
        worker.framework.wait_to_read(batch)
        worker.recorder.work()
        images += batch.images
        if number % every == 0:
            now = time.monotonic()
            _log.info("batch %d: %.1f images/s", number, every * size / (now - interval))
            interval = now
    read = events.Read(images, group.workers, images / (time.monotonic() - started))
    _log.info(read.sentence())
    worker.recorder.reading(data.times)
    if group.rank == 0:
        outcome = TrainingOutcome(epochs=worker.options.optimizer.num_epochs)
        result = _result(worker, group, data, ResumePoint(Position(0, 0)), outcome, started_at)
        write_reading(worker.store.attempt_folder, result, read, datetime.now(UTC))
    write_termination_message(events.to_line(read, time.time()))


def _train(worker: Worker, group: Group, data: Data, accumulation_steps: int) -> bool:
    """Train, evaluate, leave the result; false when it left early instead."""
    started_at = datetime.now(UTC)
    fit, resume_point = _get_ready(worker, group, data, accumulation_steps)
    with worker.termination.deferred():
        outcome = fit.run(
            resume_point.position, resume_point.first_image, resume_point.attempt_at_end
        )
    leaves = [int(outcome.stopped or worker.termination.requested)]
    # What follows needs all workers, and one may have got its signal in the last validation.
    if any(group.add(leaves) if group.collective else leaves):
        return False
    model_epoch = _choose_model(worker, group, fit, outcome.epochs)
    if outcome.validated != model_epoch:
        # An earlier attempt trained to the end and died before it could say so, or the best model
        # is that of an earlier epoch, which was reported then.
        is_last = model_epoch == outcome.epochs
        outcome.validation = fit.validate(model_epoch - 1, reports=is_last, is_final=True)
    predictions = None
    if fit.predictions is not None and data.validation is not None:
        own, images = fit.predictions.rows(), data.validation.images
        predictions = gather(own, images, group, worker.store.attempt_folder)
    if group.rank == 0:
        result = _result(worker, group, data, resume_point, outcome, started_at)
        result = replace(
            result,
            planned_epochs=worker.options.optimizer.num_epochs,
            model_epoch=model_epoch,
            history=fit.history,
            receipts=[
                one for one in fit.checkpointer.receipts if one.position <= Position(model_epoch, 0)
            ],
            checkpoint_stall=fit.checkpointer.stalls.mean,
        )
        worker.store.refuse_later_attempt()
        folder = worker.store.attempt_folder
        worker.recorder.phase(Phase.EXPORTING)

        def describe(document: Mapping[str, Any]) -> None:
            evaluation = write_evaluation(folder, predictions, result.job, model_epoch, data)
            output = worker.options.output
            versions = {"imagenet-workloads": VERSION, "Python": platform.python_version()}
            origin = Origin(
                output.dataset_license,
                sys.argv[1:],
                {**versions, **worker.versions()},
                runs_of(output.output, _identity(worker)),
            )
            write_card(folder, model_card(document, evaluation, data, origin))

        with growth_reported(folder, worker.recorder.work):
            sha256 = write_result(
                folder,
                result,
                fit.learner.export,
                labels(data.classes, data.class_words),
                datetime.now(UTC),
                describe,
            )
        finished = result.finished(sha256)
        fit.reporter.write(finished)
        # For the status of the job: no sampler reaches this worker any more.
        write_termination_message(events.to_line(finished, time.time()))
    return True


def _choose_model(worker: Worker, group: Group, fit: TrainingLoop, trained: int) -> int:
    """Load the model of the best epoch if that was asked for; return the model's epoch, from 1.

    Every rank that validates loads it. If the checkpoint of the best epoch is damaged, that of the
    next best one is taken.
    """
    metric = fit.history.best_metric
    if metric is None:
        return trained
    chosen, attempt = trained, 0
    for one in by_merit(fit.history.entries, metric) if group.rank == 0 else ():
        if one.epoch == trained:
            break
        folder = worker.store.folder_of(Position(one.epoch, 0), one.attempt)
        try:
            worker.store.verified(folder, worker.recorder.work)
        except InputError as error:
            _log.warning("the model of epoch %d is not exported: %s", one.epoch, error)
            continue
        chosen, attempt = one.epoch, one.attempt
        break
    chosen, attempt = group.broadcast_from_rank0("best", [chosen, attempt])
    if chosen != trained and (group.collective or group.rank == 0):
        fit.learner.load(worker.store.folder_of(Position(chosen, 0), attempt))
        _log.info("the model is that of epoch %d, the best by validation %s", chosen, metric)
    return chosen


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
    history = ValidationHistory.of(options)
    if history.decides and (data.validation is None or not data.validation.images):
        raise InputError(
            "--checkpoint-best (checkpoint.best.metric) and --early-stopping-metric "
            "(earlyStopping.metric) need validation images, and this training has none; leave them "
            "out, or prepare the dataset with validation images"
        )
    if resume_point.continues and resume_point.folder is not None:
        history.load(resume_point.folder)
    plan = _plan(options, group, batches, resume_point, accumulation_steps)
    learner = worker.framework.learner(data, resume_point, plan)
    log, furthest = None, 0.0
    if group.rank == 0:
        # Before this run's own log begins; a job's account of time is that of rank 0.
        furthest = trained_before(options.output.output, _identity(worker))
        log_readably(worker.store.attempt_folder / READABLE_LOG)
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
    _announce(worker, group, data, reporter, resume_point)
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
        history,
        None if resume_point.attempt_at_end is None else resume_point.position,
    )
    checkpointer.keep(history.best)
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
        history=history,
        attempt=worker.environment.attempt or 0,
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
    worker: Worker, group: Group, data: Data, reporter: Reporter, resume_point: ResumePoint
) -> None:
    batches = data.training.batches_per_epoch
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
            data.training.images,
            data.key,
            _parameters(worker, group),
        )
    )


def _parameters(worker: Worker, group: Group) -> dict[str, str]:
    """Return what decides the training, by option; options of augmentation only if they are used.

    The batch is that of all workers, whose number may change.
    """
    options = worker.options
    chosen = {
        "framework": worker.framework.name,
        "strategy": worker.strategy,
        "seed": options.cluster.seed,
        **vars(options.model),
        **vars(options.optimizer),
        **{
            item.name: value
            for item in options.augmentation.options
            if (value := getattr(options.augmentation, item.name)) != item.default
        },
        "batch_size": options.optimizer.batch_size * group.workers,
    }
    return {name: str(value) for name, value in chosen.items() if value not in (None, "", ())}


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
        epochs=outcome.epochs,
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
