"""The worker of every strategy; a strategy adds its options and its environment.

Only workers mount volumes: they read the dataset and write checkpoints and results. If the template
sets an image and a command, the worker runs them in place of `imagenet-train`, with the same
environment.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from imagenet_operator.api import ImageNetJob, extra_arguments, worker_memory
from imagenet_operator.api.templates import own_program
from imagenet_operator.errors import InvalidJob
from imagenet_operator.manifests import arguments, rendezvous, volumes
from imagenet_operator.manifests.pod import Program, of_one_node
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.volumes import Mount
from imagenet_spec.names import IMAGENET_DATA, IMAGENET_DATASET, IMAGENET_OUTPUT, IMAGENET_RESULTS

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

    Args:
        job: The job.
        settings: The operator's configuration.
        options: The values of options of `imagenet-train` that follow from the strategy's fields,
            by name.
        environment: The variables by which the members find each other.
        ports: The ports on which they connect.
        slots: The processes that `imagenet-slots` runs in each worker; None without it.

    Raises:
        InvalidJob: The job has options that its program would reject.
    """
    own = _program(job, settings, options, slots)
    return replace(own, environment={**own.environment, **environment}, ports=ports)


def _program(
    job: ImageNetJob, settings: Settings, options: Mapping[str, Any], slots: int | None
) -> Program:
    """Return the program, without the means to find its peers."""
    workers, mounts = job.spec.training.workers, _mounts(job)
    shares_node = volumes.must_share_node(job, mounts, workers.replicas)
    reading = worker_memory.of_worker(job)
    return Program(
        role=ROLE,
        command="imagenet-train" if slots is None else "imagenet-slots",
        arguments=_arguments(job, options, slots),
        image=_image(job, settings),
        grace_period_seconds=settings.worker_grace_period_seconds,
        environment={
            **_places(job, mounts),
            **of_one_node(workers.replicas, shares_node, settings),
        },
        secret=_secret(job),
        cache=workers.cache,
        mounts=mounts,
        gpus=workers.gpus,
        shared_memory=True,
        memory=None if reading is None else worker_memory.in_mebibytes(reading.bytes),
        leaves_result=_leaves_result(job),
        reports_readiness=not _is_own(job),
        shares_node=shares_node,
        template=workers.template,
        template_path="spec.training.workers.template",
        own_program=own_program.of_workers(job.spec.training),
    )


def _is_own(job: ImageNetJob) -> bool:
    """Whether the workers run the user's program.

    It need not serve /readyz; its template may have a probe.
    """
    training = job.spec.training
    if problems := [*own_program.problems(training), *extra_arguments.problems(training)]:
        raise InvalidJob(problems)
    return own_program.has_command(training.workers.template)


def _leaves_result(job: ImageNetJob) -> bool:
    """Whether the workers' program leaves a result.

    Only programs of this release leave one with --test-io; `image` may be older.
    """
    training = job.spec.training
    may_be_older = training.image is not None and "--test-io" in training.extra_args
    return not (_is_own(job) or may_be_older)


def _image(job: ImageNetJob, settings: Settings) -> str:
    training, images = job.spec.training, settings.images[job.spec.training.framework]
    return training.image or (images.gpu if training.workers.gpus else images.cpu)


def _arguments(job: ImageNetJob, options: Mapping[str, Any], slots: int | None) -> tuple[str, ...]:
    if _is_own(job):
        return ()
    if slots is None:
        return arguments.of_worker(job, options)
    trainer = arguments.of_worker(job, options, slots)
    return (
        "--slots",
        str(slots),
        "--join-timeout",
        str(rendezvous.join_timeout(job)),
        "--",
        "imagenet-train",
        *trainer,
    )


def _places(job: ImageNetJob, mounts: tuple[Mount, ...]) -> dict[str, str]:
    """Return the variables of the folders of a worker, below its mounts."""
    # Dataset and results are on one volume, which is mounted once.
    beside = (
        {}
        if any(mount.variable == IMAGENET_OUTPUT for mount in mounts)
        else {IMAGENET_OUTPUT: f"$({IMAGENET_DATA})"}
    )
    return {
        **beside,
        IMAGENET_DATASET: volumes.dataset_path(job),
        IMAGENET_RESULTS: volumes.results_path(job),
    }


def _mounts(job: ImageNetJob) -> tuple[Mount, ...]:
    output = volumes.output(job)
    if output is None:
        return (volumes.data(job),)
    if volumes.dataset_claim(job) is None:
        return (output,)
    return (volumes.data(job, read_only=True), output)


def _secret(job: ImageNetJob) -> str | None:
    """Return the Secret of a dataset that workers read without a volume."""
    fields = job.spec.dataset.source.fields
    return fields.secret if fields.remote_url is not None else None
