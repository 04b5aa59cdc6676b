"""The strategy `horovod`: workers that reduce among themselves over Gloo, and their rendezvous.

No ssh and no MPI: the environment is what `horovodrun` would give each process. A worker's own is
that of its first slot; `imagenet-slots` runs the others beside it and counts on from there. The
rendezvous, one for each attempt, is where they learn each other's addresses; it needs no data and
no GPU, and serves a user's own program as well.
"""

from __future__ import annotations

from imagenet_operator.api import ImageNetJob
from imagenet_operator.api.strategies.horovod import Horovod
from imagenet_operator.manifests import names, rendezvous, worker
from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas

RENDEZVOUS = "rendezvous"

HOSTS = "IMAGENET_HOROVOD_HOSTS"
"""Horovod's host assignments, ``NAME:SLOTS,…``, for the rendezvous."""

IDLE_CYCLE = {"HOROVOD_IDLE_CYCLE_TIME": "100"}
"""Milliseconds until a thread of Horovod's that has nothing to reduce asks the others again; it is
woken when it has. Only the Horovod of our images knows this (images/horovod-idle-cycle.patch)."""

ANY_CYCLE = {"HOROVOD_CYCLE_TIME": "10"}
"""Milliseconds from one round of questions to the next, which any Horovod knows. Its default of 1
is right where gradients wake it; otherwise it takes time from cores that compute, and one that
sleeps for much longer keeps short steps waiting (docs/benchmarks.md)."""


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the rendezvous and the workers of an attempt."""
    trainer = worker.program(
        job,
        settings,
        rendezvous.join_timeout_option(job),
        environment=_environment(job, attempt),
        slots=_slots(job),
    )
    replicas = range(job.spec.training.workers.replicas)
    return [
        Replicas.alike(_rendezvous(job, attempt, settings), 1),
        Replicas(trainer, [_ranks(job, attempt, index) for index in replicas]),
    ]


def _rendezvous(job: ImageNetJob, attempt: int, settings: Settings) -> Program:
    replicas = range(job.spec.training.workers.replicas)
    hosts = [names.member(job.metadata.name, attempt, worker.ROLE, index) for index in replicas]
    return Program(
        role=RENDEZVOUS,
        command="imagenet-rendezvous",
        arguments=(),
        image=settings.images[job.spec.training.framework].cpu,
        grace_period_seconds=settings.grace_period_seconds,
        environment={
            HOSTS: ",".join(f"{host}:{_slots(job)}" for host in hosts),
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.RENDEZVOUS_PORT),
        },
        ports={"training": rendezvous.RENDEZVOUS_PORT},
        reports_readiness=True,
        template=_strategy(job).rendezvous.template,
        template_path="spec.training.strategy.horovod.rendezvous.template",
    )


def _environment(job: ImageNetJob, attempt: int) -> dict[str, str]:
    """Return what the first slots of all workers share."""
    slots, workers = _slots(job), job.spec.training.workers
    return {
        **_cycles(job),
        "HOROVOD_CONTROLLER": "gloo",
        "HOROVOD_CPU_OPERATIONS": "gloo",
        "HOROVOD_GLOO_RENDEZVOUS_ADDR": names.address(job.metadata.name, attempt, RENDEZVOUS, 0),
        "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.RENDEZVOUS_PORT),
        "HOROVOD_GLOO_TIMEOUT_SECONDS": str(rendezvous.join_timeout(job)),
        "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS": str(rendezvous.join_timeout(job)),
        "HOROVOD_SIZE": str(workers.replicas * slots),
        "HOROVOD_LOCAL_SIZE": str(slots),
        "HOROVOD_LOCAL_RANK": "0",
        "HOROVOD_CROSS_SIZE": str(workers.replicas),
    }


def _ranks(job: ImageNetJob, attempt: int, index: int) -> dict[str, str]:
    """Return the variables that differ between the first slots of the workers."""
    return {
        # As in the host assignments, by which the rendezvous knows it.
        "HOROVOD_HOSTNAME": names.member(job.metadata.name, attempt, worker.ROLE, index),
        "HOROVOD_RANK": str(index * _slots(job)),
        "HOROVOD_CROSS_RANK": str(index),
    }


def _cycles(job: ImageNetJob) -> dict[str, str]:
    """Return how often Horovod's thread looks for something to reduce, where it costs a core."""
    if job.spec.training.workers.gpus:
        return {}
    # An image of somebody else's has a Horovod of its own.
    return IDLE_CYCLE if job.spec.training.image is None else IDLE_CYCLE | ANY_CYCLE


def _slots(job: ImageNetJob) -> int:
    return _strategy(job).slots(job.spec.training.workers.gpus)


def _strategy(job: ImageNetJob) -> Horovod:
    strategy = job.spec.training.strategy.horovod
    assert strategy is not None, "this module serves no other strategy"
    return strategy
