"""Checks whether this machine can run every pod of a job, before anything starts.

A missing program, too few GPUs, a missing folder of a claim, or a sidecar would otherwise fail the
job only after minutes of preparation.
"""

import re
from dataclasses import dataclass

from imagenet_operator.clusters.interface import LocalError
from imagenet_operator.clusters.local import pods
from imagenet_operator.clusters.local.environments import Programs, is_member
from imagenet_operator.clusters.local.machine import Volumes
from imagenet_operator.manifests import preview, volumes
from imagenet_operator.manifests.settings import Settings
from imagenet_operator.reconcile.decide import is_managed
from imagenet_spec.program.train import BFLOAT16_CPU_FLAGS
from imagenet_spec.resource import ImageNetJob
from imagenet_spec.resource.templates import own_program


@dataclass(frozen=True)
class Needs:
    """What a job's pods need from a machine.

    Attributes:
        programs: The console scripts that they run, each with whether it trains.
        claims: Those of them that the job does not create.
    """

    programs: frozenset[tuple[str, bool]]
    mounted: frozenset[str]
    claims: frozenset[str]
    secrets: frozenset[str]
    gpus: int
    ports: frozenset[int]


def images(job: ImageNetJob, settings: Settings) -> frozenset[str]:
    """Return the images that this machine replaces.

    The programs of the operator's images are installed here. The command of a user's own program
    is searched on the PATH, whatever its image is.
    """
    training = job.spec.training
    own = {training.image} if own_program.command(training) is not None else set()
    of_training = (
        image for images in settings.images.values() for image in (images.cpu, images.gpu)
    )
    return frozenset({settings.preparation_image, *of_training, *filter(None, own)})


def needs(job: ImageNetJob, settings: Settings) -> Needs:
    """Return what a job needs.

    Raises:
        LocalError: Another manager owns the job.
        Unsupported: A pod uses a feature that a local run does not support.
        InvalidTemplate: A template is invalid, or sets a field that the operator owns.
    """
    if not is_managed(job):
        raise LocalError(
            f"spec.runPolicy.managedBy: {job.spec.run_policy.managed_by} manages this job, and "
            "imagenetctl would ignore it; remove the field to run it on this machine"
        )
    built = preview.everything(job, settings)
    members = [item for item in built if item["kind"] == "Pod"]
    everything = [item["spec"]["template"] for item in built if item["kind"] == "Job"] + members
    installed = images(job, settings)
    for pod in everything:
        pods.check(pod, installed)
    mounted = frozenset(claim for pod in everything for claim in pods.claims(pod))
    made = {claim["metadata"]["name"] for claim in volumes.claims(job)}
    return Needs(
        programs=frozenset((pods.program(pod), is_member(pod)) for pod in everything),
        mounted=mounted,
        claims=mounted - made,
        secrets=frozenset(secret for pod in everything for secret in pods.secrets(pod)),
        gpus=sum(pods.gpus(pod) for pod in members),
        ports=frozenset(port for pod in everything for port in pods.ports(pod)),
    )


def check(wanted: Needs, capacity: int, volumes: Volumes, programs: Programs) -> None:
    """Raise LocalError, which says what to do, if this machine lacks something that a job needs."""
    for program, trains in sorted(wanted.programs):
        programs.find(program, trains=trains)
    if wanted.gpus > capacity:
        raise LocalError(
            f"the job asks for {wanted.gpus} GPUs at a time and this machine has {capacity}; "
            "lower spec.training.workers.replicas or gpus, or say with --gpus how many there are"
        )
    for claim in sorted(wanted.claims):
        volumes.folder(claim)
    for secret in sorted(wanted.secrets):
        volumes.secret(secret)


def slow_precision(job: ImageNetJob, cpuinfo: str) -> str | None:
    """Return a warning if this processor (/proc/cpuinfo) has no instructions for bfloat16."""
    training = job.spec.training
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo, re.MULTILINE)
    is_on_cpu = training.precision == "bfloat16" and not training.workers.gpus
    if not is_on_cpu or flags is None or BFLOAT16_CPU_FLAGS & set(flags[1].split()):
        return None
    return (
        "spec.training.precision: this processor has no instructions for bfloat16, which can make "
        "training over 100 times slower than in float32; write float32"
    )


def check_mapped(mounted: frozenset[str], secrets: frozenset[str], volumes: Volumes) -> None:
    """Raise LocalError if nothing mounts a name, perhaps misspelt, of --volume or --secret."""
    for claim in sorted(volumes.mapped - mounted):
        raise LocalError(
            f"--volume {claim}=…: nothing mounts a claim {claim!r}; "
            f"write one of {', '.join(sorted(mounted))}"
        )
    for secret in sorted(volumes.secrets.keys() - secrets):
        instead = f"write one of {', '.join(sorted(secrets))}" if secrets else "leave it out"
        raise LocalError(f"--secret {secret}=…: nothing mounts a Secret {secret!r}; {instead}")
