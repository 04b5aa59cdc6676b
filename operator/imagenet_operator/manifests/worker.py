"""The worker of every strategy; a strategy adds its options and its environment.

Only workers mount volumes. If the template sets an image and a command, the worker runs them in
place of `imagenet-train`, with the same environment.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from imagenet_operator.manifests import arguments, rendezvous, volumes
from imagenet_operator.manifests.pod import Program, of_one_node
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.volumes import Mount
from imagenet_spec.errors import InvalidJob
from imagenet_spec.names import (
    IMAGENET_DATA,
    IMAGENET_DATASET,
    IMAGENET_OUTPUT,
    IMAGENET_RESULTS,
    SLOTS_PROGRAM,
    TRAIN_PROGRAM,
)
from imagenet_spec.program.programs import SLOTS, TRACK
from imagenet_spec.resource import ImageNetJob, extra_arguments, worker_memory
from imagenet_spec.resource.templates import own_program

ROLE = "worker"
_NOTHING: Mapping[str, str] = MappingProxyType({})
_NO_PORTS: Mapping[str, int] = MappingProxyType({})


def program(
    job: ImageNetJob,
    settings: Settings,
    options: Mapping[str, Any] = _NOTHING,
    environment: Mapping[str, str] = _NOTHING,
    ports: Mapping[str, int] = _NO_PORTS,
    slots: int | None = None,
) -> Program:
    """Return the program of a job's workers.

    `options` of `imagenet-train` follow from the strategy's fields. `slots` is the processes that
    `imagenet-slots` runs in each worker; None without it.

    Raises:
        InvalidJob: The job has options that its program would reject.
    """
    training, workers = job.spec.training, job.spec.training.workers
    if problems := [*own_program.problems(training), *extra_arguments.problems(training)]:
        raise InvalidJob(problems)
    is_own = own_program.has_command(workers.template)
    output = volumes.output(job)
    if output is None:
        mounts: tuple[Mount, ...] = (volumes.data(job),)
    elif volumes.dataset_claim(job) is None:
        mounts = (output,)
    else:
        mounts = (volumes.data(job, read_only=True), output)
    # Dataset and results may be on one volume, which is mounted once.
    is_output_mounted = any(mount.variable == IMAGENET_OUTPUT for mount in mounts)
    shares_node = volumes.must_share_node(job, mounts, workers.replicas)
    reading = worker_memory.of_worker(job)
    images, source = settings.images[training.framework], job.spec.dataset.source.fields
    tracking = None if is_own else training.tracking
    if is_own:
        command_arguments: tuple[str, ...] = ()
    elif slots is None:
        command_arguments = arguments.of_worker(job, options)
    else:
        values = {"slots": slots, "join_timeout": rendezvous.join_timeout(job)}
        of_slots = arguments.of_program(job, SLOTS, values)
        trainer = arguments.of_worker(job, options, slots)
        command_arguments = (*of_slots, "--", TRAIN_PROGRAM, *trainer)
    return Program(
        role=ROLE,
        command=TRAIN_PROGRAM if slots is None else SLOTS_PROGRAM,
        arguments=command_arguments,
        image=training.image or (images.gpu if workers.gpus else images.cpu),
        grace_period_seconds=settings.worker_grace_period_seconds,
        environment={
            **({} if is_output_mounted else {IMAGENET_OUTPUT: f"$({IMAGENET_DATA})"}),
            IMAGENET_DATASET: volumes.dataset_path(job),
            IMAGENET_RESULTS: volumes.results_path(job),
            **of_one_node(workers.replicas, shares_node, settings),
            **environment,
        },
        # Workers read a dataset without a volume themselves.
        secret=None if source.remote_url is None else source.secret,
        # Kubernetes expands $(NAME) in the values of variables.
        start_secret=None if training.start is None else training.start.secret_name,
        tracking=None
        if tracking is None
        else json.dumps(tracking_arguments(job)).replace("$", "$$"),
        tracking_secret=None if tracking is None else tracking.secret,
        cache=workers.cache,
        mounts=mounts,
        gpus=workers.gpus,
        shared_memory=True,
        memory=None if reading is None else worker_memory.in_mebibytes(reading.bytes),
        ports=ports,
        # Only programs of this release leave a result with --test-io; `image` may be older.
        leaves_result=not is_own
        and (training.image is None or "--test-io" not in training.extra_args),
        # The user's program need not serve /readyz; its template may have a probe.
        reports_readiness=not is_own,
        shares_node=shares_node,
        template=workers.template,
        template_path="spec.training.workers.template",
        own_program=own_program.of_workers(training),
    )


def tracking_arguments(job: ImageNetJob) -> tuple[str, ...]:
    """Return the arguments of the program that sends the events of a job, beside its rank 0."""
    tracking = job.spec.training.tracking
    is_for_files = tracking is not None and tracking.tensor_board is not None
    return arguments.of_program(job, TRACK, {"tensorboard": is_for_files})
