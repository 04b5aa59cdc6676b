"""The strategy `horovod`: workers with an all-reduce over NCCL or Gloo, and their rendezvous.

It uses neither ssh nor MPI: the environment is that of `horovodrun`, for a worker's first slot;
`imagenet-slots` starts the others and derives theirs. In the rendezvous, the slots exchange their
addresses. It needs no data and no GPU, and supports a user's own program too.
"""

from __future__ import annotations

from imagenet_operator.manifests import names, rendezvous, worker
from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.names import IMAGENET_HOROVOD_HOSTS, RENDEZVOUS_PROGRAM
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.strategies.horovod import Horovod

RENDEZVOUS = "rendezvous"

IDLE_CYCLE = {"HOROVOD_IDLE_CYCLE_TIME": "100"}
"""The cycle of an idle Horovod thread in milliseconds; gradients wake it. Only the Horovod of the
project's images has this variable (images/horovod-idle-cycle.patch)."""

ANY_CYCLE = {"HOROVOD_CYCLE_TIME": "10"}
"""Horovod's cycle time in milliseconds. The default of 1 takes CPU time from training, unless
gradients wake the thread. A much longer cycle delays short steps (docs/benchmarks.md)."""


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the rendezvous and the workers of an attempt."""
    trainer = worker.program(
        job,
        settings,
        {"join_timeout": rendezvous.join_timeout(job)},
        environment=_environment(job, attempt),
        slots=_slots(job),
    )
    replicas = range(job.spec.training.workers.replicas)
    return [
        Replicas.alike(_rendezvous(job, attempt, settings), 1),
        Replicas(
            trainer,
            [
                {
                    # The name in the host assignments of the rendezvous.
                    "HOROVOD_HOSTNAME": names.member(
                        job.metadata.name, attempt, worker.ROLE, index
                    ),
                    "HOROVOD_RANK": str(index * _slots(job)),
                    "HOROVOD_CROSS_RANK": str(index),
                }
                for index in replicas
            ],
        ),
    ]


def _rendezvous(job: ImageNetJob, attempt: int, settings: Settings) -> Program:
    replicas = range(job.spec.training.workers.replicas)
    hosts = [names.member(job.metadata.name, attempt, worker.ROLE, index) for index in replicas]
    return Program(
        role=RENDEZVOUS,
        command=RENDEZVOUS_PROGRAM,
        arguments=(),
        image=settings.images[job.spec.training.framework].cpu,
        grace_period_seconds=settings.grace_period_seconds,
        environment={
            IMAGENET_HOROVOD_HOSTS: ",".join(f"{host}:{_slots(job)}" for host in hosts),
            "HOROVOD_GLOO_RENDEZVOUS_PORT": str(rendezvous.RENDEZVOUS_PORT),
        },
        ports={"training": rendezvous.RENDEZVOUS_PORT},
        reports_readiness=True,
        template=_strategy(job).rendezvous.template,
        template_path="spec.training.strategy.horovod.rendezvous.template",
    )


def _environment(job: ImageNetJob, attempt: int) -> dict[str, str]:
    slots, workers = _slots(job), job.spec.training.workers
    cycles: dict[str, str] = {}
    if not workers.gpus:
        # On CPUs, the default would cost a core. Another image has its own Horovod.
        is_ours = job.spec.training.image is None
        cycles = IDLE_CYCLE if is_ours else IDLE_CYCLE | ANY_CYCLE
    return {
        **cycles,
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


def _slots(job: ImageNetJob) -> int:
    return _strategy(job).processes(job.spec.training.workers.gpus)


def _strategy(job: ImageNetJob) -> Horovod:
    strategy = job.spec.training.strategy.horovod
    assert strategy is not None, "this module serves no other strategy"
    return strategy
