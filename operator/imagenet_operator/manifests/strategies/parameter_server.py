"""The strategy `parameterServer`: ps-lite's scheduler, servers and workers.

The environment is that of ps-lite (DMLC_*, PORT). All members use the same name of the scheduler,
because it distributes its root URI. The name contains the attempt's number, so a pod of an earlier
attempt never connects to a later scheduler.
"""

from __future__ import annotations

from typing import Any

from imagenet_operator.manifests import arguments, names, rendezvous, worker
from imagenet_operator.manifests.pod import Program
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.manifests.strategies import Replicas
from imagenet_spec.names import IMAGENET_WORKER_PROGRAM, TRAIN_PROGRAM
from imagenet_spec.program.option import written
from imagenet_spec.program.train import OPTIONS
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.strategies.parameter_server import ParameterServer
from imagenet_spec.resource.templates import own_program

SCHEDULER = "scheduler"
SERVER = "server"
WORKER = worker.ROLE


def members(job: ImageNetJob, attempt: int, settings: Settings) -> list[Replicas]:
    """Return the scheduler, the servers and the workers of an attempt."""
    strategy = _strategy(job)
    scheduler = _helper(job, attempt, settings, SCHEDULER)
    server = _helper(job, attempt, settings, SERVER)
    trainer = worker.program(
        job,
        settings,
        _options(job),
        environment=_environment(job, attempt, WORKER),
        ports={"training": rendezvous.MEMBER_PORT},
    )
    return [
        Replicas.alike(scheduler, 1),
        Replicas.alike(server, strategy.servers.replicas),
        Replicas.alike(trainer, job.spec.training.workers.replicas),
    ]


def _strategy(job: ImageNetJob) -> ParameterServer:
    strategy = job.spec.training.strategy.parameter_server
    assert strategy is not None, "this module serves no other strategy"
    return strategy


def _options(job: ImageNetJob) -> dict[str, Any]:
    return {"kv_store": _strategy(job).kv_store, "join_timeout": rendezvous.join_timeout(job)}


def _helper(job: ImageNetJob, attempt: int, settings: Settings, role: str) -> Program:
    """Return the program of a scheduler or server, which needs no data and no GPU."""
    strategy = _strategy(job)
    port = rendezvous.RENDEZVOUS_PORT if role == SCHEDULER else rendezvous.MEMBER_PORT
    environment = _environment(job, attempt, role)
    if role == SERVER and not own_program.has_command(job.spec.training.workers.template):
        # By this, a server knows that workers of dist_sync send no optimizer.
        environment[IMAGENET_WORKER_PROGRAM] = TRAIN_PROGRAM
    return Program(
        role=role,
        command=TRAIN_PROGRAM,
        arguments=tuple(written(OPTIONS, {**arguments.of_strategy(job), **_options(job)})),
        image=settings.images[job.spec.training.framework].cpu,
        grace_period_seconds=settings.grace_period_seconds,
        environment=environment,
        ports={"training": port},
        reports_readiness=True,
        template=strategy.servers.template,
        template_path="spec.training.strategy.parameterServer.servers.template",
    )


def _environment(job: ImageNetJob, attempt: int, role: str) -> dict[str, str]:
    strategy = _strategy(job)
    port = {} if role == SCHEDULER else {"PORT": str(rendezvous.MEMBER_PORT)}
    return {
        "DMLC_ROLE": role,
        "DMLC_PS_ROOT_URI": names.address(job.metadata.name, attempt, SCHEDULER, 0),
        "DMLC_PS_ROOT_PORT": str(rendezvous.RENDEZVOUS_PORT),
        "DMLC_NUM_WORKER": str(job.spec.training.workers.replicas),
        "DMLC_NUM_SERVER": str(strategy.servers.replicas),
        # The address to bind and to announce; without it ps-lite takes the first interface.
        "DMLC_NODE_HOST": "$(POD_IP)",
        **port,
    }
